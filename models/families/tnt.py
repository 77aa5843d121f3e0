"""Transformer in Transformer: an inner Transformer among the words of each patch, an outer one among the patches.

    Y_l = inner block(Y_{l-1}), within each patch        Z_l = outer block([z_class; Z_{l-1} + projection(Y_l)])

The class token has no words: nothing is added to it in front of the outer block.

Legend: B batch, C channels, P patches, M words of a patch, I width of a word, E width of a patch's token, K classes.
Source: Han et al. 2021, "Transformer in Transformer", section 2.2, as its authors' code has it
(:mod:`models.layers.visual_words`).
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attendant.config import require, require_fraction, require_positive
from models.families.family import Family
from models.layers.positional import LearnedPositions
from models.layers.vision_block import VisionBlock
from models.layers.visual_words import WordEmbed, WordProjection


@dataclass(frozen=True, slots=True, kw_only=True)
class TNTConfig:
    """Sizes of a Transformer in Transformer.

    Attributes:
        image_size: side of the square image, in pixels.
        patch_size: side of a square patch, in pixels.
        word_size: side of a square word, in pixels.
        channels: C.
        classes: K.
        layers: number of blocks, each with an inner and an outer one.
        inner_width: I.
        inner_heads: attention heads among words.
        inner_mlp_width: inner width of the words' MLP.
        width: E.
        heads: attention heads among patches.
        mlp_width: inner width of the patches' MLP.
        dropout: rate during training.
        position_deviation: standard deviation of the two initial position tables.
        norm_eps: ε of every layer normalisation.
    """

    image_size: int = 224
    patch_size: int = 16
    word_size: int = 4
    channels: int = 3
    classes: int = 1000
    layers: int = 12
    inner_width: int = 24
    inner_heads: int = 4
    inner_mlp_width: int = 96
    width: int = 384
    heads: int = 6
    mlp_width: int = 1536
    dropout: float = 0.0
    position_deviation: float = 0.02
    norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        require_positive(self, "image_size", "patch_size", "word_size", "channels", "classes", "layers")
        require_positive(self, "inner_width", "inner_heads", "inner_mlp_width", "width", "heads", "mlp_width")
        require_fraction(self, "dropout", "position_deviation", "norm_eps")
        for whole, part in (
            ("image_size", "patch_size"),
            ("patch_size", "word_size"),
            ("inner_width", "inner_heads"),
            ("width", "heads"),
        ):
            size, divisor = getattr(self, whole), getattr(self, part)
            require(size % divisor == 0, f"{whole} to be a multiple of {part} {divisor}", size)

    @property
    def pixel_shape(self) -> tuple[int, int, int]:
        """Of one image: channels, height, width."""
        return self.channels, self.image_size, self.image_size


class TNTBlock(nn.Module):
    """An inner block, its words added to their patches, and an outer block."""

    def __init__(self, config: TNTConfig, patches: int, words: int) -> None:
        super().__init__()
        self.inner = VisionBlock(
            config.inner_width, config.inner_heads, config.inner_mlp_width, config.norm_eps, config.dropout, False
        )
        self.projection = WordProjection(patches, words, config.inner_width, config.width, config.norm_eps, bias=False)
        self.outer = VisionBlock(
            config.width, config.heads, config.mlp_width, config.norm_eps, config.dropout, query_bias=False
        )

    def forward(self, words: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Words ``[B P, M, I]`` and tokens ``[B, 1 + P, E]``, the class token first; the same shapes."""
        words = self.inner(words)
        patches_BPE = tokens[:, 1:] + self.projection(words)
        return words, self.outer(torch.cat([tokens[:, :1], patches_BPE], dim=1))


class TNT(nn.Module):
    """Image classifier over patches and their words."""

    attends_over = "tokens"

    def __init__(self, config: TNTConfig) -> None:
        super().__init__()
        self.config = config
        self.words = WordEmbed(
            config.image_size,
            config.patch_size,
            config.word_size,
            config.channels,
            config.inner_width,
            config.position_deviation,
        )
        patches, words = self.words.patches, self.words.words
        self.projection = WordProjection(patches, words, config.inner_width, config.width, config.norm_eps, bias=True)
        self.class_token = nn.Parameter(torch.zeros(1, 1, config.width))
        self.positions = LearnedPositions(patches + 1, config.width, config.position_deviation)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(TNTBlock(config, patches, words) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.head = nn.Linear(config.width, config.classes)

    def forward(self, pixels: Tensor) -> Tensor:
        """Classify float images ``[B, C, image_size, image_size]``: logits ``[B, K]``."""
        words_XMI = self.words(pixels)
        class_B1E = self.class_token.expand(pixels.shape[0], -1, -1)
        tokens = self.dropout(self.positions(torch.cat([class_B1E, self.projection(words_XMI)], dim=1)))
        for block in self.blocks:
            words_XMI, tokens = block(words_XMI, tokens)
        logits: Tensor = self.head(self.norm(tokens)[:, 0])
        return logits


FAMILY = Family(name="tnt", graphs="classify", config=TNTConfig, build=TNT)
