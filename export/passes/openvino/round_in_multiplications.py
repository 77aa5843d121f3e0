"""Round what attention over windows returns in a multiplication: OpenVINO rounds alone in float32 only.

    before    QuantizeLinear(A, s, 0)
    after     QuantizeLinear(A · [1/s …], 1, 0)

OpenVINO 2026.4 makes one pass over the numbers of a multiplication and the rounding behind it, in bfloat16 as well; a
rounding by itself it surrounds with conversions. A factor that is the same for all channels it would take into the
rounding, so that the first channel's is one step of float32 larger than the others'. Attention without a bias stays as
it is: there it measured no faster (docs/log.md).

Source: ONNX operator specification, QuantizeLinear; OpenVINO 2026.4, MulFakeQuantizeFusion.
"""

import numpy as np
import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.moves import before_moves
from export.passes.match.products import add_initializer


class RoundInMultiplications(Rewrite):
    """Rewrite every QuantizeLinear of one scale behind a softmax's product (:mod:`.attend_by_products`)."""

    operators = frozenset({"QuantizeLinear"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        tape = Tape(graph)
        for node in [node for node in graph if node.op_type == "QuantizeLinear"]:
            value, scale = node.inputs[:2]
            assert value is not None and scale is not None
            width = value.shape[-1] if value.shape else None
            is_scalar = scale.const_value is not None and scale.const_value.size == 1
            if not is_scalar or not isinstance(width, int) or not _is_attended(before_moves(value)[0]):
                continue
            factors_C = np.full(width, 1 / np.float32(scale.const_value.numpy().item()), np.float32)  # type: ignore[union-attr]
            factors_C[0] = np.nextafter(factors_C[0], np.float32(np.inf))
            scaled = tape.op("Mul", [value, add_initializer(graph, f"{node.outputs[0].name}.factors", factors_C)])
            scaled.shape, scaled.type = value.shape, value.type
            node.replace_input_with(0, scaled)
            node.replace_input_with(1, add_initializer(graph, "int8.unit", np.array(1, np.float32)))
            result.fired += 1


def _is_attended(value: ir.Value) -> bool:
    node = value.producer()
    weights = None if node is None or node.op_type != "MatMul" else node.inputs[0]
    softmax = None if weights is None else weights.producer()
    if softmax is not None and softmax.op_type == "Mul" and softmax.inputs[0] is not None:  # under a mask
        softmax = softmax.inputs[0].producer()
    return softmax is not None and softmax.op_type == "Softmax"
