"""Put the plugins decode_attention and combine_splits in the place of Attention: one or few new positions.

    before    [TensorScatter(cache, K, start) → Slice →] Attention(Q, K, V, mask)
    after     [TensorScatter(cache, K, start) →] decode_attention(Q, K, V, lengths) → parts, bases → combine_splits

The graph then takes no more new positions than it was fused for. What it relies on is in attention_reach.py.

Legend: as attention_reach.py; R = S H / G rows that share a head, N splits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.plugin_ops import COMBINE, DECODE, plugin_outputs
from export.passes.match.attention_reach import Reach, RefusalError
from export.tensorrt.passes.fused_attention import FuseAttention
from models.kernel_configs.decode_tiles import most_rows, splits_for

MULTIPROCESSORS = 132
"""Of an H100: how many splits fill a GPU has to be said before the GPU is known."""
_LONG = 4096
"""Keys, where their number is not fixed."""


@dataclass(frozen=True)
class FuseDecodeAttention(FuseAttention):
    """Replace every Attention without a bias, a window or a softcap.

    Attributes:
        queries: S at most.
    """

    queries: int = 1

    def fuse(self, tape: Tape, reach: Reach, name: str) -> ir.Value:
        rows, splits = decode_sizes(self.queries, reach)
        inputs = (reach.queries, reach.keys, reach.values, reach.lengths)
        numbers = {"causal": int(reach.causal), "rows": rows, "splits": splits}
        return combine(tape, reach, plugin_outputs(tape, DECODE, inputs, numbers, name), name)


def decode_sizes(queries: int, reach: Reach) -> tuple[int, int]:
    """R at most, and N.

    Raises:
        RefusalError: the kernel holds fewer rows.
    """
    heads = reach.heads
    rows = heads.heads // heads.kv_heads * queries
    if rows > most_rows(heads):
        raise RefusalError(f"{rows} rows share a key head; the kernel holds {most_rows(heads)}")
    return rows, splits_for(heads.kv_heads, reach.capacity or _LONG, MULTIPROCESSORS)


def combine(tape: Tape, reach: Reach, parts: Sequence[ir.Value], name: str) -> ir.Value:
    """What the splits of an attention attend to together, ``[B, H, S, D]``."""
    numbers = {"heads": reach.heads.heads, "element_type": int(reach.element_type.value)}
    return plugin_outputs(tape, COMBINE, parts, numbers, f"{name}.combined")[0]
