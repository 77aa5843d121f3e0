"""What Swin and SwinV2 share: stages of blocks whose attention stays in windows, shifted in every second block.

    z_0 = LayerNorm(patches E)        stage: blocks, then four neighbours become one place of twice the width
    y = head(mean over the places of LayerNorm(z_L))

Each stage halves the sides of the map, rounding up. A window that the map does not fill is as large as the map, and is
not shifted (:mod:`models.layers.windows`).

Legend: B batch, h and w height and width of a map, C width of the first stage, K classes.
Source: Liu et al. 2021, "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", section 3, figure 3.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from attendant.config import require, require_bool, require_choice, require_fraction, require_positive
from models.layers.mlp import ACTIVATIONS, MLP, Activation
from models.layers.padding import pad_image, rounded_up
from models.layers.patch_embed import PatchEmbed
from models.layers.patch_merging import PostNormMerging, PreNormMerging
from models.layers.residual import PreNorm, ResPostNorm
from models.layers.windows import Windows, windows_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftedWindowConfig:
    """Sizes of a Swin or SwinV2.

    Attributes:
        image_size: side of the square image, in pixels; padded to a multiple of ``patch_size``.
        patch_size: side of a square patch, in pixels.
        channels: of the image.
        classes: K.
        depths: number of blocks of each stage.
        heads: number of attention heads of each stage.
        width: C; each stage doubles it.
        window: side of a window, in places.
        mlp_ratio: inner width of an MLP, in widths of its stage; rounded down.
        activation: of the MLPs.
        qkv_bias: whether the projections of queries, values and, in Swin, keys have biases.
        dropout: rate during training.
        norm_eps: ε of the layer normalisations of blocks and of the last map.
        map_norm_eps: ε of those of the patches and of merged neighbours; if None, the same.
    """

    image_size: int = 224
    patch_size: int = 4
    channels: int = 3
    classes: int = 1000
    depths: tuple[int, ...] = (2, 2, 6, 2)
    heads: tuple[int, ...] = (3, 6, 12, 24)
    width: int = 96
    window: int = 7
    mlp_ratio: int | float = 4
    activation: Activation = "gelu"
    qkv_bias: bool = True
    dropout: float = 0.0
    norm_eps: float = 1e-5
    map_norm_eps: float | None = None

    def __post_init__(self) -> None:
        require_positive(self, "image_size", "patch_size", "channels", "classes", "width", "window")
        require_bool(self, "qkv_bias")
        require_choice(self, "activation", ACTIVATIONS)
        require_fraction(self, "dropout", "norm_eps", *(["map_norm_eps"] if self.map_norm_eps is not None else []))
        is_ratio = type(self.mlp_ratio) in (int, float) and 1 <= self.mlp_ratio * self.width < float("inf")
        require(is_ratio, "mlp_ratio to be a number that gives an inner width", repr(self.mlp_ratio))
        for name in ("depths", "heads"):
            require_sizes(name, getattr(self, name))
        require(len(self.heads) == len(self.depths), f"heads of {len(self.depths)} stages, as of depths", self.heads)
        for width, heads in zip(self.widths, self.heads, strict=True):
            require(width % heads == 0, f"a stage's width {width} to be a multiple of its heads", heads)

    @property
    def pixel_shape(self) -> tuple[int, int, int]:
        """Of one image: channels, height, width."""
        return self.channels, self.image_size, self.image_size

    @property
    def eps_of_maps(self) -> float:
        """ε of the layer normalisations between blocks."""
        return self.norm_eps if self.map_norm_eps is None else self.map_norm_eps

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(self.width * 2**stage for stage in range(len(self.depths)))

    @property
    def sides(self) -> tuple[int, ...]:
        """Of the stages' maps, in places."""
        first = rounded_up(self.image_size, self.patch_size) // self.patch_size
        return tuple(rounded_up(first, 2**stage) // 2**stage for stage in range(len(self.depths)))


def require_sizes(name: str, value: object, least: int = 1) -> None:
    """Reject what is no tuple of integers of at least ``least``, zero or one, for each stage.

    Raises:
        ConfigError: it is something else.
    """
    sizes = value if isinstance(value, tuple) else ()
    good = bool(sizes) and all(type(size) is int and size >= least for size in sizes)
    expected = "positive integers" if least else "integers, zero or more"
    require(good, f"{name} to be {expected}, one a stage", repr(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """In what the two architectures differ.

    Attributes:
        attention: makes the attention of a block, of a stage's number and of how its map is cut.
        residual: around both sublayers.
        merging: of neighbours, between two stages.
    """

    attention: Callable[[int, Windows], nn.Module]
    residual: type[PreNorm] | type[ResPostNorm]
    merging: type[PreNormMerging] | type[PostNormMerging]


class WindowBlock(nn.Module):
    """Attention in windows and an MLP, each with its residual."""

    def __init__(self, config: ShiftedWindowConfig, kind: Kind, stage: int, shifted: bool) -> None:
        super().__init__()
        width = config.widths[stage]
        self.attention = kind.attention(stage, windows_of(config.sides[stage], config.window, shifted))
        self.mlp = MLP(width, int(config.mlp_ratio * width), config.activation, config.dropout)
        self.attention_residual = kind.residual(width, config.norm_eps, config.dropout)
        self.mlp_residual = kind.residual(width, config.norm_eps)

    def forward(self, grid: Tensor) -> Tensor:
        """``[B, h, w, E]`` → ``[B, h, w, E]``, E the stage's width."""
        attended: Tensor = self.attention_residual(grid, self.attention)
        mixed: Tensor = self.mlp_residual(attended, self.mlp)
        return mixed


class Stage(nn.Module):
    """Blocks, every second one shifted, and the merging behind them, if another stage follows."""

    def __init__(self, config: ShiftedWindowConfig, kind: Kind, stage: int) -> None:
        super().__init__()
        last = stage == len(config.depths) - 1
        self.blocks = nn.Sequential(
            *(WindowBlock(config, kind, stage, n % 2 == 1) for n in range(config.depths[stage]))
        )
        self.merging = nn.Identity() if last else kind.merging(config.widths[stage], config.eps_of_maps)

    def forward(self, grid: Tensor) -> Tensor:
        """``[B, h, w, E]`` → ``[B, ⌈h/2⌉, ⌈w/2⌉, 2E]``, or in the last stage ``[B, h, w, E]``."""
        merged: Tensor = self.merging(self.blocks(grid))
        return merged


class ShiftedWindowTransformer(nn.Module):
    """Image classifier over windows of patches."""

    attends_over = "windows"

    def __init__(self, config: ShiftedWindowConfig, kind: Kind) -> None:
        super().__init__()
        self.config = config
        padded_size = config.sides[0] * config.patch_size
        self.patches = PatchEmbed(padded_size, config.patch_size, config.channels, config.width)
        self.patch_norm = nn.LayerNorm(config.width, eps=config.eps_of_maps)
        self.dropout = nn.Dropout(config.dropout)
        self.stages = nn.Sequential(*(Stage(config, kind, stage) for stage in range(len(config.depths))))
        self.norm = nn.LayerNorm(config.widths[-1], eps=config.norm_eps)
        self.head = nn.Linear(config.widths[-1], config.classes)

    def forward(self, pixels: Tensor) -> Tensor:
        """Classify float images ``[B, channels, image_size, image_size]``: logits ``[B, K]``."""
        patches_BPE = self.patches(pad_image(pixels, self.config.patch_size))
        side = self.config.sides[0]
        grid_BhwE = self.dropout(self.patch_norm(patches_BPE)).unflatten(1, (side, side))
        logits: Tensor = self.head(self.norm(self.stages(grid_BhwE)).mean((1, 2)))
        return logits
