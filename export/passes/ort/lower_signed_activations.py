"""Lower activations of int8 to uint8, for which ONNX Runtime on a CPU is fast: 128 is added to every number.

    before    QuantizeLinear(x, s, 0)   → int8    n         DequantizeLinear(n, s, 0)
    after     QuantizeLinear(x, s, 128) → uint8   n + 128   DequantizeLinear(n, s, 128)

The standard rounds before it adds the zero point, and both types saturate at the same numbers: the values are the same.
Weights stay int8: the products want them so.

Source: ONNX operator specification, QuantizeLinear: y = saturate(round(x / y_scale) + y_zero_point).
"""

import numpy as np
import onnx_ir as ir

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.products import add_initializer

_MIDDLE = "uint8.zero_point"


class LowerSignedActivations(Rewrite):
    """Rewrite every QuantizeLinear to int8 with a zero point of 0 that nothing but DequantizeLinear reads."""

    operators = frozenset({"QuantizeLinear"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        for node in graph:
            if not _is_signed(node):
                continue
            readers = list(node.outputs[0].consumers())
            if any(reader.op_type != "DequantizeLinear" for reader in readers) or node.outputs[0].is_graph_output():
                result.refused.append(f"{node.outputs[0].name}: its integers are read by more than DequantizeLinear")
                continue
            for quantiser in (node, *readers):
                quantiser.replace_input_with(2, add_initializer(graph, _MIDDLE, np.array(128, np.uint8)))
            node.outputs[0].type = ir.TensorType(ir.DataType.UINT8)  # a clone shares the old one
            result.fired += 1


def _is_signed(node: ir.Node) -> bool:
    zero = node.inputs[2] if node.op_type == "QuantizeLinear" and len(node.inputs) > 2 else None
    if zero is None or zero.const_value is None or zero.dtype != ir.DataType.INT8:
        return False
    return not np.any(zero.const_value.numpy()) and not zero.shape
