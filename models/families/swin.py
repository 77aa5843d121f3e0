"""Swin: pre-norm blocks, a table of biases for the offsets in a window, and a norm before neighbours are merged.

    z' = z + W-MSA(LayerNorm(z))        z'' = z' + MLP(LayerNorm(z'))        every second block: SW-MSA, shifted windows

Source: Liu et al. 2021, "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", section 3, equation
3; :mod:`models.families.shifted_windows` has the rest.
"""

from dataclasses import dataclass

from models.families.family import Family
from models.families.shifted_windows import Kind, ShiftedWindowConfig, ShiftedWindowTransformer
from models.layers.patch_merging import PreNormMerging
from models.layers.relative_position_2d import OffsetBias
from models.layers.residual import PreNorm
from models.layers.window_attention import WindowAttention
from models.layers.windows import Windows


@dataclass(frozen=True, slots=True, kw_only=True)
class SwinConfig(ShiftedWindowConfig):
    """Sizes of a Swin; the defaults are Swin-T."""


class Swin(ShiftedWindowTransformer):
    def __init__(self, config: SwinConfig) -> None:
        def attention(stage: int, windows: Windows) -> WindowAttention:
            heads = config.heads[stage]
            width, bias = config.widths[stage], OffsetBias(windows.size, heads)
            return WindowAttention(width, heads, windows, bias, None, config.qkv_bias, config.qkv_bias)

        super().__init__(config, Kind(attention=attention, residual=PreNorm, merging=PreNormMerging))


FAMILY = Family(name="swin", graphs="classify", config=SwinConfig, build=Swin)
