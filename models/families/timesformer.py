"""TimeSformer: a Vision Transformer over the patches of every frame of a video, in its three forms of attention.

    divided   first among the frames of one place, then within each frame (:mod:`models.layers.divided_block`)
    joint     among all patches of all frames
    space     within each frame alone; the frames' class tokens are averaged at the end

A patch's token is E x + its place's position + its frame's (not in ``space``); the one class token has no frame.

Legend: B batch, F frames, C channels, P patches of a frame, S = 1 + P, N = P F, E model width, K classes.
Source: Bertasius et al. 2021, "Is Space-Time Attention All You Need for Video Understanding?", section 3.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from attendant.config import require, require_bool, require_choice, require_fraction, require_positive
from models.families.family import Family
from models.layers.divided_block import DividedBlock
from models.layers.mlp import ACTIVATIONS, Activation
from models.layers.patch_embed import PatchEmbed
from models.layers.positional import LearnedPositions
from models.layers.vision_block import VisionBlock

SpaceTime = Literal["divided", "joint", "space"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSformerConfig:
    """Sizes of a TimeSformer.

    Attributes:
        frames: F.
        image_size: side of the square frames, in pixels.
        patch_size: side of a square patch, in pixels.
        channels: C.
        classes: K.
        attention: what a patch attends to.
        layers: number of blocks.
        width: E.
        heads: of every attention.
        mlp_width: inner width of the MLP.
        activation: of the MLP.
        qkv_bias: whether the projections of queries, keys and values have biases.
        dropout: rate during training.
        position_deviation: standard deviation of the initial tables of places and of frames.
        norm_eps: ε of every layer normalisation.
    """

    frames: int = 8
    image_size: int = 224
    patch_size: int = 16
    channels: int = 3
    classes: int = 400
    attention: SpaceTime = "divided"
    layers: int = 12
    width: int = 768
    heads: int = 12
    mlp_width: int = 3072
    activation: Activation = "gelu"
    qkv_bias: bool = True
    dropout: float = 0.0
    position_deviation: float = 0.02
    norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        require_positive(self, "frames", "image_size", "patch_size", "channels", "classes")
        require_positive(self, "layers", "width", "heads", "mlp_width")
        require_choice(self, "attention", get_args(SpaceTime))
        require_choice(self, "activation", ACTIVATIONS)
        require_bool(self, "qkv_bias")
        require_fraction(self, "dropout", "position_deviation", "norm_eps")
        for whole, part in (("image_size", "patch_size"), ("width", "heads")):
            size, divisor = getattr(self, whole), getattr(self, part)
            require(size % divisor == 0, f"{whole} to be a multiple of {part} {divisor}", size)

    @property
    def pixel_shape(self) -> tuple[int, int, int, int]:
        """Of one video: frames, channels, height, width."""
        return self.frames, self.channels, self.image_size, self.image_size


class TimeSformer(nn.Module):
    """Video classifier over the patches of its frames."""

    def __init__(self, config: TimeSformerConfig) -> None:
        super().__init__()
        self.config = config
        self.patches = PatchEmbed(config.image_size, config.patch_size, config.channels, config.width)
        self.class_token = nn.Parameter(torch.zeros(1, 1, config.width))
        self.positions = LearnedPositions(self.patches.count + 1, config.width, config.position_deviation)
        self.times = (
            None
            if config.attention == "space"
            else LearnedPositions(config.frames, config.width, config.position_deviation)
        )
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.Sequential(*(_block(config) for _ in range(config.layers)))
        self.norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.head = nn.Linear(config.width, config.classes)

    def forward(self, pixels: Tensor) -> Tensor:
        """Classify float videos ``[B, F, C, image_size, image_size]``: logits ``[B, K]``."""
        patches_XPE = self.patches(pixels.flatten(0, 1))
        class_X1E = self.class_token.expand(patches_XPE.shape[0], -1, -1)
        frames_XSE: Tensor = self.dropout(self.positions(torch.cat([class_X1E, patches_XPE], dim=1)))
        if self.times is None:
            class_XE = self.blocks(frames_XSE)[:, 0]
            class_BE = class_XE.reshape(-1, self.config.frames, self.config.width).mean(1)
        else:
            frames_BFSE = frames_XSE.reshape(-1, self.config.frames, *frames_XSE.shape[1:])
            class_B1E = frames_BFSE[:, 0, :1]
            patches_BPFE = self.dropout(self.times(frames_BFSE[:, :, 1:].transpose(1, 2)))
            class_BE = self.blocks(torch.cat([class_B1E, patches_BPFE.flatten(1, 2)], dim=1))[:, 0]
        logits: Tensor = self.head(self.norm(class_BE))
        return logits


def _block(config: TimeSformerConfig) -> nn.Module:
    sizes = (config.width, config.heads, config.mlp_width, config.norm_eps, config.dropout)
    kind = (config.qkv_bias, config.activation)
    return DividedBlock(config.frames, *sizes, *kind) if config.attention == "divided" else VisionBlock(*sizes, *kind)


FAMILY = Family(name="timesformer", graphs="classify", config=TimeSformerConfig, build=TimeSformer)
