"""Put the plugin additive_attention in the place of Bahdanau's attention, spelled out.

    before    Softmax(mask, Tanh(query + keys) score) = weights → weights · annotations = context
    after     additive_attention(query, keys, score, annotations, mask) = context, weights

Legend: B batch, S source positions, C width of an annotation, A width of the alignment network.
"""

from dataclasses import dataclass

import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.plugin_ops import ADDITIVE, plugin_outputs
from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.attention_reach import RefusalError
from export.passes.match.head_layout import producer
from export.passes.match.products import replace_value
from models.kernel_configs.limits import MOST_POSITIONS


@dataclass(frozen=True)
class FuseAdditiveAttention(Rewrite):
    """Replace every additive attention.

    Attributes:
        longest: S at most, 2048 at most.
    """

    operators = frozenset({"Tanh"})
    longest: int = MOST_POSITIONS

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        tape = Tape(graph)
        for node in [node for node in graph if node.op_type == "Tanh" and _reads_keys(node)]:
            try:
                _fuse(tape, node, self.longest)
            except RefusalError as why:
                result.refused.append(f"{node.outputs[0].name}: {why}")
            else:
                result.fired += 1


def _reads_keys(node: ir.Node) -> bool:
    # Tanh of a sum [B, S, A], one part of which is [B, 1, A] made from [B, A]: no other Tanh of our graphs has this.
    added = producer(node.inputs[0], "Add")
    keys = None if added is None else added.inputs[1]
    if added is None or keys is None or keys.shape is None or len(keys.shape) != 3:
        return False
    return producer(added.inputs[0], "Unsqueeze") is not None


def _fuse(tape: Tape, tanh: ir.Node, longest: int) -> None:
    if longest > MOST_POSITIONS:
        raise RefusalError(f"sources of {longest} positions; the kernel holds {MOST_POSITIONS}")
    added = producer(tanh.inputs[0], "Add")
    assert added is not None
    query, keys = _input_of(added.inputs[0], "Unsqueeze"), added.inputs[1]
    product = _only_user(tanh.outputs[0], "MatMul")
    chosen = _only_user(product.outputs[0], "Gather")
    filled = _only_user(chosen.outputs[0], "Where")
    softmax = _only_user(filled.outputs[0], "Softmax")
    zeroed = _only_user(softmax.outputs[0], "Where")
    mask = _input_of(zeroed.inputs[0], "Not")
    weights = zeroed.outputs[0]
    row = _only_user(weights, "Unsqueeze")
    mixed = next((user for user in row.outputs[0].consumers() if user.op_type == "MatMul"), None)
    if mixed is None or filled.inputs[0] is not zeroed.inputs[0]:
        raise RefusalError("its weights are masked or used in another way")
    context = _only_user(mixed.outputs[0], "Gather")
    flat = tape.op("Reshape", [_present(product.inputs[1]), tape.op("Constant", [], {"value_ints": [-1]})])
    inputs = (query, _present(keys), flat, _present(mixed.inputs[1]), mask)
    made = plugin_outputs(tape, ADDITIVE, inputs, {"longest": longest}, str(softmax.name))
    for new, old in zip(made, (context.outputs[0], weights), strict=True):
        replace_value(old, new)


def _input_of(value: ir.Value | None, operator: str) -> ir.Value:
    node = producer(value, operator)
    if node is None:
        raise RefusalError(f"no {operator} where one was expected")
    return _present(node.inputs[0])


def _only_user(value: ir.Value, operator: str) -> ir.Node:
    users = list(value.consumers())
    if len(users) != 1 or users[0].op_type != operator:
        raise RefusalError(f"{value.name} goes to {[user.op_type for user in users]}, not to one {operator}")
    return users[0]


def _present(value: ir.Value | None) -> ir.Value:
    assert value is not None
    return value
