"""The Vision Transformer: patches as tokens, a class token in front, learned positions, pre-norm blocks.

    z_0 = [class; patch_1 E … patch_P E] + E_pos        y = head(LayerNorm(z_L at the class token))

Legend: B batch, C channels, P patches, E model width, K classes.
Source: Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words", equations 1 to 4.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attendant.config import require, require_bool, require_choice, require_fraction, require_positive
from models.families.family import Family
from models.layers.mlp import ACTIVATIONS, Activation
from models.layers.patch_embed import PatchEmbed
from models.layers.positional import LearnedPositions
from models.layers.vision_block import VisionBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class ViTConfig:
    """Sizes of a Vision Transformer.

    Attributes:
        image_size: side of the square image, in pixels.
        patch_size: side of a square patch, in pixels.
        channels: C.
        classes: K.
        layers: number of blocks.
        width: E.
        heads: number of attention heads.
        mlp_width: inner width of the MLP.
        activation: of the MLP.
        qkv_bias: whether the projections of queries, keys and values have biases.
        head_width: width of the head's one hidden layer (tanh), as at pre-training; none for a linear head.
        dropout: rate during training.
        position_deviation: standard deviation of the initial position table.
        norm_eps: ε of every layer normalisation.
    """

    image_size: int = 224
    patch_size: int = 16
    channels: int = 3
    classes: int = 1000
    layers: int = 12
    width: int = 768
    heads: int = 12
    mlp_width: int = 3072
    activation: Activation = "gelu"
    qkv_bias: bool = True
    head_width: int | None = None
    dropout: float = 0.0
    position_deviation: float = 0.02
    norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        require_positive(self, "image_size", "patch_size", "channels", "classes")
        require_positive(self, "layers", "width", "heads", "mlp_width")
        if self.head_width is not None:
            require_positive(self, "head_width")
        require_bool(self, "qkv_bias")
        require_choice(self, "activation", ACTIVATIONS)
        require_fraction(self, "dropout", "position_deviation", "norm_eps")
        require(self.width % self.heads == 0, f"width to be a multiple of {self.heads} heads", self.width)
        require(
            self.image_size % self.patch_size == 0,
            f"image_size to be a multiple of patch_size {self.patch_size}",
            self.image_size,
        )

    @property
    def pixel_shape(self) -> tuple[int, int, int]:
        """Of one image: channels, height, width."""
        return self.channels, self.image_size, self.image_size


class ViT(nn.Module):
    """Image classifier over patches."""

    attends_over = "tokens"

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        self.patches = PatchEmbed(config.image_size, config.patch_size, config.channels, config.width)
        self.class_token = nn.Parameter(torch.zeros(1, 1, config.width))
        self.positions = LearnedPositions(self.patches.count + 1, config.width, config.position_deviation)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = vision_blocks(config)
        self.norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.head = classifier_head(config)

    def forward(self, pixels: Tensor) -> Tensor:
        """Classify float images ``[B, C, image_size, image_size]``: logits ``[B, K]``."""
        patches_BPE = self.patches(pixels)
        class_B1E = self.class_token.expand(pixels.shape[0], -1, -1)
        tokens = self.dropout(self.positions(torch.cat([class_B1E, patches_BPE], dim=1)))
        logits: Tensor = self.head(self.norm(self.blocks(tokens))[:, 0])
        return logits


def vision_blocks(config: ViTConfig) -> nn.Sequential:
    """The stack of blocks, ``[B, P + 1, E]`` → ``[B, P + 1, E]``."""
    sizes = config.width, config.heads, config.mlp_width, config.norm_eps, config.dropout, config.qkv_bias
    return nn.Sequential(*(VisionBlock(*sizes, activation=config.activation) for _ in range(config.layers)))


def classifier_head(config: ViTConfig) -> nn.Module:
    """From a token ``[B, E]`` to logits ``[B, K]``: linear, or with one hidden layer."""
    if config.head_width is None:
        return nn.Linear(config.width, config.classes)
    return nn.Sequential(
        nn.Linear(config.width, config.head_width), nn.Tanh(), nn.Linear(config.head_width, config.classes)
    )


FAMILY = Family(name="vit", graphs="classify", config=ViTConfig, build=ViT)
