"""Put the plugin additive_attention in the place of Bahdanau's attention, spelled out.

    before    Softmax(mask, Tanh(query + keys) score) = weights → weights · annotations = context
    after     additive_attention(query, keys, score, annotations, mask) = context, weights

Legend: B batch, S source positions, C width of an annotation, A width of the alignment network.
"""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass, TopologicalSortPass
from onnx_ir.tape import Tape

from export.graph.outcome import Outcome
from export.graph.plugin_ops import ADDITIVE, plugin_outputs
from export.passes.match.attention_reach import RefusalError
from export.passes.match.head_layout import producer
from models.kernel_configs.limits import MOST_POSITIONS


def fuse_additive_attention(model: ir.Model, longest: int = MOST_POSITIONS) -> Outcome:
    """Replace every additive attention.

    Args:
        model: is changed.
        longest: S at most, 2048 at most.
    """
    graph, fired, refusals = model.graph, 0, []
    tape = Tape(graph)
    for node in [node for node in graph if node.op_type == "Tanh" and _reads_keys(node)]:
        try:
            _fuse(tape, node, longest)
        except RefusalError as why:
            refusals.append(f"{node.outputs[0].name}: {why}")
        else:
            fired += 1
    RemoveUnusedNodesPass()(model)
    TopologicalSortPass()(model)
    return Outcome(name="fuse_additive_attention", fired=fired, refusals=tuple(refusals))


def _reads_keys(node: ir.Node) -> bool:
    # Tanh of a sum [B, S, A], one part of which is [B, 1, A] made from [B, A]: no other Tanh of our graphs has this.
    added = producer(node.inputs[0], "Add")
    return added is not None and producer(added.inputs[0], "Unsqueeze") is not None and _rank(added.inputs[1]) == 3


def _fuse(tape: Tape, tanh: ir.Node, longest: int) -> None:
    if longest > MOST_POSITIONS:
        raise RefusalError(f"sources of {longest} positions; the kernel holds {MOST_POSITIONS}")
    added = producer(tanh.inputs[0], "Add")
    assert added is not None
    query, keys = _read(added.inputs[0], "Unsqueeze"), added.inputs[1]
    product = _only_user(tanh.outputs[0], "MatMul")
    chosen = _only_user(product.outputs[0], "Gather")
    filled = _only_user(chosen.outputs[0], "Where")
    softmax = _only_user(filled.outputs[0], "Softmax")
    zeroed = _only_user(softmax.outputs[0], "Where")
    mask = _read(zeroed.inputs[0], "Not")
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
        new.shape, new.type = old.shape, old.type
        old.replace_all_uses_with(new, replace_graph_outputs=True)


def _read(value: ir.Value | None, operator: str) -> ir.Value:
    node = producer(value, operator)
    if node is None:
        raise RefusalError(f"no {operator} where one was expected")
    return _present(node.inputs[0])


def _only_user(value: ir.Value, operator: str) -> ir.Node:
    users = list(value.consumers())
    if len(users) != 1 or users[0].op_type != operator:
        raise RefusalError(f"{value.name} goes to {[user.op_type for user in users]}, not to one {operator}")
    return users[0]


def _rank(value: ir.Value | None) -> int:
    return -1 if value is None or value.shape is None else len(value.shape)


def _present(value: ir.Value | None) -> ir.Value:
    assert value is not None
    return value
