"""SwinV2: norms behind the sublayers, scores by angle, and biases from a network that outlives a change of the window.

    z' = z + LayerNorm(W-MSA(z))        z'' = z' + LayerNorm(MLP(z'))        every second block: SW-MSA, shifted windows
    scores: cos(q, k) / τ + bias        the keys' projection has no bias

The authors' code starts training with all norms behind sublayers at zero; here they start at one, as every norm.

Source: Liu et al. 2022, "Swin Transformer V2: Scaling Up Capacity and Resolution", section 3, figure 1;
:mod:`models.families.shifted_windows` has the rest.
"""

from dataclasses import dataclass

from attendant.config import require
from models.families.family import Family
from models.families.shifted_windows import Kind, ShiftedWindowConfig, ShiftedWindowTransformer, require_sizes
from models.layers.continuous_position_bias import ContinuousPositionBias
from models.layers.cosine_attention import ScaledCosine
from models.layers.patch_merging import PostNormMerging
from models.layers.residual import ResPostNorm
from models.layers.window_attention import WindowAttention
from models.layers.windows import Windows


@dataclass(frozen=True, slots=True, kw_only=True)
class SwinV2Config(ShiftedWindowConfig):
    """Sizes of a SwinV2; the defaults are SwinV2-T with windows of 8.

    Attributes:
        pretrained_windows: sides of each stage's windows in an earlier training; where 0, or not given, as now.
    """

    image_size: int = 256
    window: int = 8
    pretrained_windows: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        ShiftedWindowConfig.__post_init__(self)  # a class with slots has no super() without arguments
        if self.pretrained_windows is not None:
            require_sizes("pretrained_windows", self.pretrained_windows, least=0)
            stages, found = len(self.depths), self.pretrained_windows
            require(len(found) == stages, f"pretrained_windows of {stages} stages, as of depths", found)


class SwinV2(ShiftedWindowTransformer):
    def __init__(self, config: SwinV2Config) -> None:
        def attention(stage: int, windows: Windows) -> WindowAttention:
            heads = config.heads[stage]
            before = config.pretrained_windows[stage] if config.pretrained_windows else 0
            bias = ContinuousPositionBias(windows.size, heads, before or None)
            cosine, width = ScaledCosine(heads), config.widths[stage]
            return WindowAttention(width, heads, windows, bias, cosine, config.qkv_bias, key_bias=False)

        super().__init__(config, Kind(attention=attention, residual=ResPostNorm, merging=PostNormMerging))


FAMILY = Family(name="swin_v2", graphs="classify", config=SwinV2Config, build=SwinV2)
