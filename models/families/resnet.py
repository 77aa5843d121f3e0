"""ResNet in BiT's form, as the backbone of hybrids: a stem, and stages of bottleneck blocks.

    stem: 7 × 7 convolution of stride 2, group norm, ReLU, 3 × 3 max pool of stride 2
    stage i = 0, 1, …: blocks of width 4 · stem_width · 2^i; from stage 1 on the first block has stride 2

Legend: B batch, C channels, F width of the last stage, h and w sides of the features.
Source: Kolesnikov et al. 2020, "Big Transfer (BiT)", section 3.1; Dosovitskiy et al. 2021, sections 3.1 and 4.1.
"""

import math
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F

from attendant.config import require, require_positive
from models.layers.bottleneck import EXPANSION, Bottleneck, NormedConv
from models.layers.std_conv import max_pool

_STEM_STRIDE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ResNetConfig:
    """Sizes of a backbone.

    Attributes:
        channels: C.
        stem_width: channels behind the stem.
        blocks: how many each stage has; none where the stem is all.
        groups: of every group norm.
    """

    channels: int = 3
    stem_width: int = 64
    blocks: tuple[int, ...] = (3, 4, 9)
    groups: int = 32

    def __post_init__(self) -> None:
        require_positive(self, "channels", "stem_width", "groups")
        counts = isinstance(self.blocks, tuple) and all(type(count) is int and count > 0 for count in self.blocks)
        require(counts, "blocks to be positive integers", repr(self.blocks))
        # The stem's width is also the inner width of the first stage, and every other width a multiple of it.
        divisible = self.stem_width % self.groups == 0
        require(divisible, f"stem_width to be a multiple of {self.groups} groups", self.stem_width)

    @property
    def widths(self) -> tuple[int, ...]:
        """Channels behind the stem and behind every stage; the last is F."""
        stages = (EXPANSION * self.stem_width * 2**stage for stage in range(len(self.blocks)))
        return self.stem_width, *stages

    @property
    def stride(self) -> int:
        """Pixels of the image, in each direction, to one of the features."""
        return _STEM_STRIDE * math.prod(_stride(stage) for stage in range(len(self.blocks)))


class ResNet(nn.Module):
    """From pixels to the last features."""

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__()
        self.stem = NormedConv(config.channels, config.stem_width, 7, 2, config.groups)
        self.stages = nn.Sequential(*(_stage(config, stage) for stage in range(len(config.blocks))))

    def forward(self, pixels: Tensor) -> Tensor:
        """``[B, C, side, side]`` → ``[B, F, h, w]``, each side of them ⌈side / stride⌉."""
        features: Tensor = self.stages(max_pool(F.relu(self.stem(pixels))))
        return features


def _stage(config: ResNetConfig, stage: int) -> nn.Sequential:
    channels, width = config.widths[stage : stage + 2]
    first = Bottleneck(channels, width, _stride(stage), config.groups)
    others = (Bottleneck(width, width, 1, config.groups) for _ in range(config.blocks[stage] - 1))
    return nn.Sequential(first, *others)


def _stride(stage: int) -> int:
    return 1 if stage == 0 else 2
