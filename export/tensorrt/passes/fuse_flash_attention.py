"""Put the plugin flash_attention in the place of Attention: encoders, prompts, cross-attention.

    before    [TensorScatter(cache, K, start) → Slice →] Attention(Q, K, V, mask)
    after     [TensorScatter(cache, K, start) →] flash_attention(Q, K, V, lengths)

Whole caches are handed over: the plugin stops at each row's length. What it relies on is in attention_reach.py.
"""

import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.plugin_ops import FLASH, plugin_outputs
from export.passes.match.attention_reach import Reach
from export.tensorrt.passes.fused_attention import FuseAttention


class FuseFlashAttention(FuseAttention):
    """Replace every Attention without a bias, a window or a softcap."""

    def fuse(self, tape: Tape, reach: Reach, name: str) -> ir.Value:
        inputs = (reach.queries, reach.keys, reach.values, reach.lengths)
        return plugin_outputs(tape, FLASH, inputs, {"causal": int(reach.causal)}, name)[0]
