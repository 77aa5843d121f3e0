"""From pixels to the vectors that a decoder attends to: the Vision Transformer without its head.

    z_0 = [class; patch_1 E … patch_P E] + E_pos        memory = LayerNorm(z_L), every token of it

Legend: B batch, C channels, S tokens, E model width.
Source: Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words", equations 1 to 3; Liu et al. 2021, "CPTR: Full
Transformer Network for Image Captioning", section 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from models.config import require, require_bool, require_fraction, require_positive
from models.layers.attention import MultiHeadAttention
from models.layers.blocks import EncoderBlock
from models.layers.mlp import MLP
from models.layers.patch_embed import PatchEmbed
from models.layers.positional import LearnedPositions
from models.layers.residual import PreNorm


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionEncoderConfig:
    """Sizes of an encoder of images.

    Attributes:
        image_size: side of the square image, in pixels.
        patch_size: side of a square patch, in pixels.
        channels: C.
        layers: number of blocks.
        width: E.
        heads: number of attention heads.
        mlp_width: inner width of the MLP.
        qkv_bias: whether the projections of queries, keys and values have biases.
        dropout: rate during training.
        position_deviation: standard deviation of the initial position table.
        norm_eps: ε of every layer normalisation.
    """

    image_size: int = 224
    patch_size: int = 16
    channels: int = 3
    layers: int = 12
    width: int = 768
    heads: int = 12
    mlp_width: int = 3072
    qkv_bias: bool = True
    dropout: float = 0.0
    position_deviation: float = 0.02
    norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        require_positive(self, "image_size", "patch_size", "channels", "layers", "width", "heads", "mlp_width")
        require_bool(self, "qkv_bias")
        require_fraction(self, "dropout", "position_deviation", "norm_eps")
        require(self.width % self.heads == 0, f"width to be a multiple of {self.heads} heads", self.width)
        fits = self.image_size % self.patch_size == 0
        require(fits, f"image_size to be a multiple of patch_size {self.patch_size}", self.image_size)

    @property
    def pixel_shape(self) -> tuple[int, int, int]:
        """Of one image: channels, height, width."""
        return self.channels, self.image_size, self.image_size

    @property
    def tokens(self) -> int:
        """S: the patches, and the class token before them."""
        return 1 + (self.image_size // self.patch_size) ** 2


class VisionEncoder(nn.Module):
    """Patches, a class token in front, learned positions, pre-norm blocks and one norm behind them."""

    def __init__(self, config: VisionEncoderConfig) -> None:
        super().__init__()
        self.patches = PatchEmbed(config.image_size, config.patch_size, config.channels, config.width)
        self.class_token = nn.Parameter(torch.zeros(1, 1, config.width))
        self.positions = LearnedPositions(config.tokens, config.width, config.position_deviation)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(_block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width, eps=config.norm_eps)

    def forward(self, pixels: Tensor) -> Tensor:
        """Float images ``[B, C, image_size, image_size]`` → ``[B, S, E]``."""
        patches_BSE = self.patches(pixels)
        class_B1E = self.class_token.expand(pixels.shape[0], -1, -1)
        hidden = self.dropout(self.positions(torch.cat([class_B1E, patches_BSE], dim=1)))
        for block in self.blocks:
            hidden = block(hidden)
        memory: Tensor = self.norm(hidden)
        return memory


def _block(config: VisionEncoderConfig) -> EncoderBlock:
    attention = MultiHeadAttention(config.width, config.heads, config.qkv_bias, output_bias=True)
    mlp = MLP(config.width, config.mlp_width, "gelu")
    return EncoderBlock(attention, mlp, lambda: PreNorm(config.width, config.norm_eps, config.dropout))
