"""Let ONNX Runtime's MatMulIntegerToFloat scale the columns of a product of integers while it multiplies.

    before    MatMulInteger(q, W, 128) → Cast → · c
    after     MatMulIntegerToFloat(q, W, 1, c, 128)

Two passes over the result are saved, which counts where rows are many: in prompts. A graph's last product is left as
it is: it has one row a question, and with a vocabulary of columns the one node takes twice as long on one row.

Legend: q [..., in], W [in, out], c [out].
Source: ONNX Runtime 1.31, docs/ContribOperators.md, com.microsoft.MatMulIntegerToFloat.
"""

import numpy as np
import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.products import add_initializer, replace_value

DOMAIN = "com.microsoft"


class ScaleInProducts(Rewrite):
    """Rewrite every MatMulInteger but the last that is only read as floats with a constant scale a column."""

    operators = frozenset({"MatMulInteger"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        tape = Tape(graph)
        for node in [node for node in graph if node.op_type == "MatMulInteger"]:
            scaling = _find_scale(node)
            if scaling is None:
                continue
            scaled, scale = scaling
            levels, weight, zero = node.inputs[:3]
            one = add_initializer(graph, "row.one", np.array(1, np.float32))
            made = tape.op("MatMulIntegerToFloat", [levels, weight, one, scale, zero], domain=DOMAIN)
            replace_value(scaled.outputs[0], made)
            result.fired += 1
        if result.fired:
            graph.opset_imports[DOMAIN] = 1


def _find_scale(node: ir.Node) -> tuple[ir.Node, ir.Value] | None:
    cast = _reader(node, "Cast")
    if len(node.inputs) != 3 or cast is None or cast.attributes.get_int("to", 0) != ir.DataType.FLOAT.value:
        return None
    scaled = _reader(cast, "Mul")
    scale = None if scaled is None else scaled.inputs[1]
    if scaled is None or scale is None or not scale.is_initializer() or scale.const_value is None:
        return None
    return (scaled, scale) if len(scale.const_value.shape) == 1 and not _is_last(scaled) else None


def _is_last(scaled: ir.Node) -> bool:
    made = [node.outputs[0] for node in scaled.outputs[0].consumers()]
    biased = [node.outputs[0] for value in made for node in value.consumers() if node.op_type == "Add"]
    return any(value.is_graph_output() for value in (*made, *biased))


def _reader(node: ir.Node, operator: str) -> ir.Node | None:
    value = node.outputs[0]
    readers = list(value.consumers())
    alone = len(readers) == 1 and not value.is_graph_output()
    return readers[0] if alone and readers[0].op_type == operator else None
