"""From pixels to the vectors that a decoder attends to: Transformer blocks over patches or over the grid of a CNN.

    patches   z_0 = [class; patch_1 E … patch_P E] + E_pos, the Vision Transformer without its head
    grid      z_0 = [a_1 E + b … a_L E + b] + E_pos, without a class token
    memory = LayerNorm(z_N), every token of it

Legend: B batch, C channels, S tokens, E model width.
Source: Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words", equations 1 to 3; Liu et al. 2021, "CPTR: Full
Transformer Network for Image Captioning", section 2.1; Carion et al. 2020, "DETR", section 3.2 (a CNN's grid,
projected, as the tokens of a Transformer; its blocks are post-norm, these pre-norm).
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attendant.config import require, require_bool, require_choice, require_fraction, require_positive
from models.layers.conv_grid import ConvGrid, ConvGridConfig
from models.layers.mlp import ACTIVATIONS, Activation
from models.layers.patch_embed import PatchEmbed
from models.layers.positional import LearnedPositions
from models.layers.vision_block import VisionBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionEncoderConfig:
    """Sizes of an encoder of images.

    Attributes:
        image_size: side of the square image, in pixels.
        patch_size: side of a square patch, in pixels; none where a CNN makes the tokens.
        grid: the CNN; none where patches are the tokens.
        channels: C.
        layers: number of blocks.
        width: E.
        heads: number of attention heads.
        mlp_width: inner width of the MLP.
        activation: of the MLP.
        qkv_bias: whether the projections of queries, keys and values have biases.
        distilled: whether a distillation token stands behind the class token, as in a DeiT trained with a teacher.
        dropout: rate during training.
        position_deviation: standard deviation of the initial position table.
        norm_eps: ε of every layer normalisation.
    """

    image_size: int = 224
    patch_size: int | None = 16
    grid: ConvGridConfig | None = None
    channels: int = 3
    layers: int = 12
    width: int = 768
    heads: int = 12
    mlp_width: int = 3072
    activation: Activation = "gelu"
    qkv_bias: bool = True
    distilled: bool = False
    dropout: float = 0.0
    position_deviation: float = 0.02
    norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        require_positive(self, "image_size", "channels", "layers", "width", "heads", "mlp_width")
        require_bool(self, "qkv_bias", "distilled")
        require_choice(self, "activation", ACTIVATIONS)
        require(not (self.distilled and self.grid), "a distillation token only among patches", f"grid {self.grid}")
        require_fraction(self, "dropout", "position_deviation", "norm_eps")
        require(self.width % self.heads == 0, f"width to be a multiple of {self.heads} heads", self.width)
        if self.patch_size is not None:
            require_positive(self, "patch_size")
        either = (self.patch_size is None) != (self.grid is None)
        require(either, "either patch_size or grid", f"patch_size {self.patch_size} and grid {self.grid}")
        fits = self.image_size % self.stride == 0
        require(fits, f"image_size to be a multiple of {self.stride} pixels a token", self.image_size)

    @property
    def pixel_shape(self) -> tuple[int, int, int]:
        """Of one image: channels, height, width."""
        return self.channels, self.image_size, self.image_size

    @property
    def stride(self) -> int:
        """Pixels of the image, in each direction, to one token."""
        if self.grid is not None:
            return self.grid.stride
        assert self.patch_size is not None
        return self.patch_size

    @property
    def tokens(self) -> int:
        """S: the patches and the tokens before them, or the positions of the grid."""
        return (self.image_size // self.stride) ** 2 + (self.grid is None) + self.distilled


class VisionEncoder(nn.Module):
    """Patches behind a class token, or a grid; learned positions, pre-norm blocks and one norm behind them."""

    def __init__(self, config: VisionEncoderConfig) -> None:
        super().__init__()
        self.patches = _patches(config)
        self.class_token = nn.Parameter(torch.zeros(1, 1, config.width)) if config.grid is None else None
        self.distillation_token = nn.Parameter(torch.zeros(1, 1, config.width)) if config.distilled else None
        self.positions = LearnedPositions(config.tokens, config.width, config.position_deviation)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.Sequential(*(_block(config) for _ in range(config.layers)))
        self.norm = nn.LayerNorm(config.width, eps=config.norm_eps)

    def forward(self, pixels: Tensor) -> Tensor:
        """Float images ``[B, C, image_size, image_size]`` → ``[B, S, E]``."""
        in_front = [token for token in (self.class_token, self.distillation_token) if token is not None]
        front = [token_11E.expand(pixels.shape[0], -1, -1) for token_11E in in_front]
        tokens_BSE = torch.cat([*front, self.patches(pixels)], dim=1)
        memory: Tensor = self.norm(self.blocks(self.dropout(self.positions(tokens_BSE))))
        return memory


def _patches(config: VisionEncoderConfig) -> nn.Module:
    if config.grid is None:
        return PatchEmbed(config.image_size, config.stride, config.channels, config.width)
    return nn.Sequential(ConvGrid(config.grid, config.channels), nn.Linear(config.grid.width, config.width))


def _block(config: VisionEncoderConfig) -> VisionBlock:
    return VisionBlock(
        config.width,
        config.heads,
        config.mlp_width,
        config.norm_eps,
        config.dropout,
        query_bias=config.qkv_bias,
        activation=config.activation,
    )
