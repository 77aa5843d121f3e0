"""Lower attention over a cache to ONNX Runtime's GroupQueryAttention, which reads as far as each row is filled.

    before    TensorScatter(cache, K, start) → Slice → Attention(Q, K, V, self_mask) → Transpose → Reshape
    after     GroupQueryAttention(Q, K, V, cache, start + T − 1, A)

Where keys and values are rounded before they are cached (:mod:`export.passes.quantise.quantise_caches`), the node
rounds, and the caches are of the integers: a quarter of the bytes that a step reads.

The node updates the same cache in place. Attention of the standard computes over all that it is given, masked or not;
this node stops at each row's length, so it ignores the mask's contents: a row sees what stands before it, and itself,
or as much of that as a window holds.
It takes several new positions of several rows only where all caches are empty (:mod:`serving.runtime.ort.runner`).

Legend: B batch, T new positions, A attended positions, H query heads, G key and value heads, D head size.
Source: ONNX Runtime 1.31, docs/ContribOperators.md, com.microsoft.GroupQueryAttention; group_query_attention_helper.h.
"""

import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.cache_rounding import NOT_SYMMETRIC, rounding_before
from export.passes.match.head_layout import HEADS_INSIDE, exchanges_heads, flatten_heads, producer
from export.passes.match.products import replace_value

DOMAIN = "com.microsoft"
HEAD_SIZE_MULTIPLE = 8
_BEFORE_SCALES = 5
"""Inputs that are left out between the lengths and the scales of keys and values."""
_IN_8_BITS: dict[str, int | float | str] = {
    "k_quant_type": "PER_TENSOR",
    "v_quant_type": "PER_TENSOR",
    "kv_cache_bit_width": 8,
}


class _RefusalError(Exception):
    """A limit of GroupQueryAttention."""


class _MissError(Exception):
    """A form that this pass does not know."""


class LowerCachedAttention(Rewrite):
    """Rewrite every Attention whose keys and values come out of a TensorScatter.

    The graph has the inputs ``token_ids``, ``start`` and ``self_mask`` of a cached decoder
    (:data:`models.tasks.cache.NEW_TOKENS`), and the caches are inputs and outputs of it.
    """

    operators = frozenset({"TensorScatter"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        places = [node for node in graph if node.op_type == "Attention" and _update(node.inputs[1]) is not None]
        if not places:
            return
        tape = Tape(graph)
        inputs = {value.name: value for value in graph.inputs}
        one = tape.op("Constant", [], {"value_ints": [1]})
        steps = tape.op("Shape", [inputs["token_ids"]], {"start": 1, "end": 2})
        newest_B = tape.op("Add", [inputs["start"], tape.op("Sub", [steps, one])])
        attended = tape.op("Squeeze", [tape.op("Shape", [inputs["self_mask"]], {"start": 3, "end": 4})])
        lengths = (_as_int32(tape, newest_B), _as_int32(tape, attended))
        for node in places:
            try:
                _lower(tape, graph, node, lengths)
            except _RefusalError as why:
                result.refused.append(f"{node.outputs[0].name}: {why}")
            except _MissError as why:
                result.missed.append(f"{node.outputs[0].name}: {why}")
            else:
                result.fired += 1
        if result.fired:
            graph.opset_imports[DOMAIN] = 1


def _as_int32(tape: Tape, value: ir.Value) -> ir.Value:
    return tape.op("Cast", [value], {"to": ir.DataType.INT32.value})


def _lower(tape: Tape, graph: ir.Graph, node: ir.Node, lengths: tuple[ir.Value, ir.Value]) -> None:
    queries, keys, values = (_present(value) for value in node.inputs[:3])
    updates = [update for update in (_update(keys), _update(values)) if update is not None]
    _expect(len(updates) == 2, "its values come out of no TensorScatter")
    _expect(node.attributes.get_float("softcap", 0.0) == 0.0, "it has a softcap")
    caches = [_present(update.inputs[0]) for update in updates]
    _expect(all(_name(cache) in {one.name for one in graph.inputs} for cache in caches), "a cache is no input")
    _, groups, _, size = _sizes(caches[0])
    heads = _sizes(queries)[1]
    _within(size % HEAD_SIZE_MULTIPLE == 0, f"head size {size} is not a multiple of {HEAD_SIZE_MULTIPLE}")
    found: dict[str, int | float | str] = {"num_heads": heads, "kv_num_heads": groups}
    scale = node.attributes.get_float("scale", None)
    attributes = found | {"local_window_size": _window(node)} | ({} if scale is None else {"scale": scale})
    roundings = [rounding_before(update) for update in updates]
    for one in roundings:
        _expect(one is None or one.symmetric, NOT_SYMMETRIC)
    pairs = zip(updates, roundings, strict=True)
    new = [_present(update.inputs[1]) if one is None else one.numbers for update, one in pairs]
    steps = [one.scale for one in roundings if one is not None]
    _expect(len(steps) in (0, 2), "of keys and values, only one is rounded")
    attended, *present = tape.op_multi_out(
        "GroupQueryAttention",
        [
            *(flatten_heads(tape, value) for value in (queries, *new)),
            *caches,
            *lengths,
            *([*[None] * _BEFORE_SCALES, *steps] if steps else []),
        ],
        attributes | (_IN_8_BITS if steps else {}),
        domain=DOMAIN,
        num_outputs=3,
    )
    for update, value, step in zip(updates, present, steps or (None, None), strict=True):
        if step is not None:  # who else reads the cache, as a graph does that shows its attention, reads numbers again
            restored = tape.op("DequantizeLinear", [value, step])
            restored.shape, restored.type = update.outputs[0].shape, update.outputs[0].type
            for user, index in list(update.outputs[0].uses()):
                user.replace_input_with(index, restored)
        replace_value(update.outputs[0], value)
    for value in (*caches, *present) if steps else ():
        value.type = ir.TensorType(ir.DataType.INT8)
    heads_BHTD = node.outputs[0]
    joined = [reshape for transpose in heads_BHTD.consumers() for reshape in _find_joins(transpose)]
    for reshape in joined:
        attended.shape, attended.type = reshape.outputs[0].shape, reshape.outputs[0].type
        reshape.outputs[0].replace_all_uses_with(attended)
    if any(not _find_joins(user) for user in heads_BHTD.consumers()):
        split = tape.op("Reshape", [attended, tape.op("Constant", [], {"value_ints": [0, 0, heads, size]})])
        heads_BHTD.replace_all_uses_with(tape.op("Transpose", [split], {"perm": HEADS_INSIDE}))


def _window(node: ir.Node) -> int:
    # self_mask, or self_mask ∧ (query position − key position < w); of the second, w
    mask = node.inputs[3] if len(node.inputs) > 3 else None
    if _name(mask) == "self_mask":
        return -1
    both = producer(mask, "And")
    near = None if both is None or _name(both.inputs[0]) != "self_mask" else producer(both.inputs[1], "Unsqueeze")
    less = None if near is None else producer(near.inputs[0], "Less")
    size = None if less is None or producer(less.inputs[0], "Sub") is None else _present(less.inputs[1]).const_value
    _within(size is not None, "its mask is neither the graph's self_mask nor a window of it: a bias")
    assert size is not None
    return int(size.numpy())


def _update(value: ir.Value | None) -> ir.Node | None:
    sliced = producer(value, "Slice")
    return producer(value if sliced is None else sliced.inputs[0], "TensorScatter")


def _find_joins(node: ir.Node) -> list[ir.Node]:
    if not exchanges_heads(node):
        return []
    users = list(node.outputs[0].consumers())
    whole = all(user.op_type == "Reshape" and len(_sizes(user.outputs[0])) == 3 for user in users)
    return users if whole else []


def _sizes(value: ir.Value | None) -> tuple[int, ...]:
    shape = _present(value).shape
    _expect(shape is not None, f"the shape of {_name(value)!r} is not known")
    assert shape is not None
    return tuple(size if isinstance(size, int) else -1 for size in shape)


def _present(value: ir.Value | None) -> ir.Value:
    assert value is not None
    return value


def _name(value: ir.Value | None) -> str | None:
    return None if value is None else value.name


def _within(holds: bool, limit: str) -> None:
    if not holds:
        raise _RefusalError(limit)


def _expect(holds: bool, why: str) -> None:
    if not holds:
        raise _MissError(why)
