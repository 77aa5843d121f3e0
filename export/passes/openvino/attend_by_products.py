"""Write attention with a constant bias as its two products and the softmax between them, which OpenVINO runs as one.

    before    Attention(Q, K, V, bias)
    after     Softmax(Q · scale @ Kᵀ + bias) @ V

Where there is a bias, OpenVINO 2026.4 takes Attention apart with a guard for rows that see nothing, and does not put it
together again. A bias that has such rows needs the guard: the softmax of −∞ alone is no number.

Legend: B batch, H heads, P positions, D head size.
Source: ONNX operator specification, Attention; Vaswani et al. 2017, section 3.2.1.
"""

import math

import numpy as np
import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.products import add_initializer, replace_value
from export.passes.match.score_factors import bias_of, sees_all

_EXCHANGED = [0, 1, 3, 2]


class AttendByProducts(Rewrite):
    """Rewrite every Attention of float32 with a constant bias and as many heads of keys as of queries."""

    operators = frozenset({"Attention"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        tape = Tape(graph)
        for node in [node for node in graph if sees_all(node) and bias_of(node)]:
            if (why := _beyond(node)) is not None:
                result.refused.append(f"{node.outputs[0].name}: {why}")
                continue
            queries, keys, values, bias = node.inputs
            assert queries is not None and queries.shape is not None
            size = queries.shape[3]
            assert isinstance(size, int)
            scale = node.attributes.get_float("scale", 1 / math.sqrt(size))
            factor = add_initializer(graph, f"scale.{scale:.9g}", np.array(scale, np.float32))
            exchanged = tape.op("Transpose", [keys], {"perm": _EXCHANGED})
            scores = tape.op("MatMul", [tape.op("Mul", [queries, factor]), exchanged])
            attended = tape.op("MatMul", [tape.op("Softmax", [tape.op("Add", [scores, bias])], {"axis": -1}), values])
            replace_value(node.outputs[0], attended)
            graph.remove(node, safe=True)
            result.fired += 1


def _beyond(node: ir.Node) -> str | None:
    shapes = [None if value is None else value.shape for value in node.inputs[:2]]
    if any(shape is None or len(shape) != 4 for shape in shapes) or shapes[0][1] != shapes[1][1]:  # type: ignore[index]
        return "its heads are not an axis of their own, or differ in number"
    if any(value is None or value.dtype != ir.DataType.FLOAT for value in node.inputs):
        return "it is not of float32"
    if node.attributes.get_int("is_causal", 0) or node.attributes.get_float("softcap", 0):
        return "it is causal, or caps its scores"
    bias = bias_of(node)
    assert bias is not None and bias.const_value is not None
    return "its bias has a row that sees nothing" if np.isneginf(bias.const_value.numpy()).all(-1).any() else None
