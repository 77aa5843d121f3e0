"""Put a plugin in the place of cache update and attention together: it writes the new positions where they lie.

    before    TensorScatter(cache, K, start) → [Slice →] Attention(Q, K, V, self_mask)        K, V likewise
    after     decode_append_attention(Q, K, V, past caches, start) → parts, bases, caches → combine_splits

Rotary, it takes the place of the rotations of queries and keys too, and gets their cosines and sines in float32.
Caches must be inputs and outputs of the graph that nothing else reads. The graph then takes no more new positions than
it was fused for.

Legend: as fuse_decode_attention.py.
"""

from dataclasses import dataclass

import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.plugin_ops import DECODE_APPEND, DECODE_APPEND_ROTARY, plugin_outputs
from export.passes.match.attention_reach import Reach, RefusalError
from export.passes.match.head_layout import producer
from export.passes.match.products import replace_value
from export.passes.match.rotation import rotation_of, uncast
from export.tensorrt.passes.fuse_decode_attention import combine, decode_sizes
from export.tensorrt.passes.fused_attention import FuseAttention


@dataclass(frozen=True)
class FuseDecodeAppend(FuseAttention):
    """Replace every Attention over caches that it alone reads, and the updates of these.

    Attributes:
        queries: S at most.
        rotary: whether queries and keys are rotated inside, where the graph rotates them just before.
    """

    queries: int = 1
    rotary: bool = True

    def fuse(self, tape: Tape, reach: Reach, name: str) -> ir.Value:
        rows, splits = decode_sizes(self.queries, reach)
        if reach.heads.dtype == "float32" and reach.heads.block > 64:
            raise RefusalError("its heads are float32 of more than 64")
        updates = [_update(cache) for cache in (reach.keys, reach.values)]
        (past_k, new_k, start), (past_v, new_v, _) = (update.inputs[:3] for update in updates)
        present = (past_k, past_v, new_k, new_v, start)
        assert past_k and past_v and new_k and new_v and start, present
        turned = [rotation_of(one, through_casts=True) if self.rotary else None for one in (reach.queries, new_k)]
        inputs, node = [reach.queries, new_k, new_v, past_k, past_v, start], DECODE_APPEND
        q, k = turned
        if q is not None and k is not None and q.cosines is k.cosines and q.sines is k.sines:
            angles = [_float32(tape, value) for value in (q.cosines, q.sines)]
            inputs, node = [q.heads, k.heads, new_v, *angles, past_k, past_v, start], DECODE_APPEND_ROTARY
        parts, bases, *caches = plugin_outputs(tape, node, inputs, {"rows": rows, "splits": splits}, name)
        for update, written in zip(updates, caches, strict=True):
            replace_value(update.outputs[0], written)
        return combine(tape, reach, (parts, bases), name)


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
