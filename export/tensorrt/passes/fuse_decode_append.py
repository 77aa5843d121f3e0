"""Put a plugin in the place of cache update and attention together: it writes the new positions where they lie.

    before    TensorScatter(cache, K, start) → [Slice →] Attention(Q, K, V, self_mask)        K, V likewise
    after     decode_append_attention(Q, K, V, past caches, start) → parts, bases, caches → combine_splits

Rotary, it takes the place of the rotations of queries and keys too, and gets their cosines and sines in float32.
Caches must be inputs and outputs of the graph that nothing else reads. The graph then takes no more new positions than
it was fused for.

Legend: as fuse_decode_attention.py.
"""

from __future__ import annotations

from functools import partial

import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.outcome import Outcome
from export.graph.plugin_ops import DECODE_APPEND, DECODE_APPEND_ROTARY, plugin_outputs
from export.passes.match.attention_reach import Reach, RefusalError
from export.passes.match.head_layout import producer
from export.passes.match.rotation import rotation_of, uncast
from export.tensorrt.passes.fuse_decode_attention import combined, decode_sizes
from export.tensorrt.passes.fused_attention import fuse_every_attention


def fuse_decode_append(model: ir.Model, queries: int = 1, rotary: bool = True) -> Outcome:
    """Replace every Attention over caches that it alone reads, and the updates of these.

    Args:
        model: is changed.
        queries: S at most.
        rotary: whether queries and keys are rotated inside, where the graph rotates them just before.
    """
    return fuse_every_attention(model, "fuse_decode_append", partial(_fused, queries, rotary))


def _fused(queries: int, rotary: bool, tape: Tape, reach: Reach, name: str) -> ir.Value:
    rows, splits = decode_sizes(queries, reach)
    if reach.heads.dtype == "float32" and reach.heads.block > 64:
        raise RefusalError("its heads are float32 of more than 64")
    updates = [_update(cache) for cache in (reach.keys, reach.values)]
    (past_k, new_k, start), (past_v, new_v, _) = (update.inputs[:3] for update in updates)
    assert past_k is not None and past_v is not None and new_k is not None and new_v is not None and start is not None
    turned = [rotation_of(value, through_casts=True) if rotary else None for value in (reach.queries, new_k)]
    given = [reach.queries, new_k, new_v, past_k, past_v, start]
    node = DECODE_APPEND
    if (q := turned[0]) is not None and (k := turned[1]) is not None and q.cosines is k.cosines and q.sines is k.sines:
        angles = [_float32(tape, value) for value in (q.cosines, q.sines)]
        node, given = DECODE_APPEND_ROTARY, [q.heads, k.heads, new_v, *angles, past_k, past_v, start]
    parts, bases, *present = plugin_outputs(tape, node, given, {"rows": rows, "splits": splits}, name)
    for update, written in zip(updates, present, strict=True):
        _take_place(update.outputs[0], written)
    return combined(tape, reach, (parts, bases), name)


def _update(cache: ir.Value) -> ir.Node:
    update = producer(cache, "TensorScatter")
    if update is None:
        raise RefusalError("it updates no cache")
    past = update.inputs[0]
    if past is None or not past.is_graph_input() or not cache.is_graph_output():
        raise RefusalError("its caches are no inputs and outputs of the graph")
    readers = [use.node for use in cache.uses()]
    if len(readers) > 1 or any(reader.op_type not in ("Slice", "Attention") for reader in readers):
        raise RefusalError("something else reads its caches")
    return update


def _float32(tape: Tape, value: ir.Value) -> ir.Value:
    wide = uncast(value)
    if wide is not None and wide.dtype == ir.DataType.FLOAT:
        return wide
    return value if value.dtype == ir.DataType.FLOAT else tape.op("Cast", [value], {"to": ir.DataType.FLOAT.value})


def _take_place(old: ir.Value, new: ir.Value) -> None:
    new.shape, new.type, name = old.shape, old.type, old.name
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    old.name, new.name = f"{name}.scattered", name
