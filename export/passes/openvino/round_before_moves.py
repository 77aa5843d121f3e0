"""Round what a norm returns before it is moved: a quarter of the bytes are moved, and the norm itself rounds.

    before    x → moves → QuantizeLinear → DequantizeLinear
    after     x → QuantizeLinear → moves → DequantizeLinear

One scale holds for the whole tensor, so the integers are the same. What attention returns stays as it is: in OpenVINO
the moves behind it are part of its fused attention, and cost more outside than the bytes do.

Source: ONNX operator specification, QuantizeLinear of one scale.
"""

import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.moves import before_moves
from export.passes.match.products import replace_value


class RoundBeforeMoves(Rewrite):
    """Rewrite every QuantizeLinear of one scale in front of which a norm's numbers are only moved."""

    operators = frozenset({"QuantizeLinear"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        tape = Tape(graph)
        for node in [node for node in graph if node.op_type == "QuantizeLinear"]:
            value, scale = node.inputs[:2]
            assert value is not None and scale is not None
            source, moves = before_moves(value)
            if not moves or len(scale.shape or ()) or not _is_of_norm(source):
                continue
            made = tape.op("QuantizeLinear", [source, *node.inputs[1:]], dict(node.attributes))
            _describe(made, source.shape, node.outputs[0].dtype)
            for move in moves:
                made = tape.op(move.op_type, [made, *move.inputs[1:]], dict(move.attributes))
                _describe(made, move.outputs[0].shape, node.outputs[0].dtype)
            replace_value(node.outputs[0], made)
            for old in (node, *reversed(moves)):
                graph.remove(old, safe=True)
            result.fired += 1


def _is_of_norm(value: ir.Value) -> bool:
    node = value.producer()
    return node is not None and node.op_type == "LayerNormalization"


def _describe(value: ir.Value, shape: ir.Shape | None, dtype: ir.DataType | None) -> None:
    value.shape = shape
    value.type = None if dtype is None else ir.TensorType(dtype)
