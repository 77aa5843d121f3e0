"""The windows of a kernel: their side, shift, heads and form of score, and the tiles that they are computed in."""

from __future__ import annotations

import math
from dataclasses import dataclass

from attendant.config import require, require_bool, require_positive
from models.kernel_configs.gpu_targets import GpuTarget
from models.kernel_configs.specialisation import LOG2_E, pointer, power_of_two, product_precision, require_float_type
from models.kernel_configs.tuned import Tiles, find_tiles

KERNEL = "window_attention"
_SMALLEST_PRODUCT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowConfig:
    """Attention in windows.

    Attributes:
        heads: H.
        head_size: D, at most 256.
        window: W, at most 32.
        shift: less than W.
        cosine: whether scores are scaled cosines, and not products.
        scale: of products.
        dtype: of queries, keys, values, table and output.

    Raises:
        ConfigError: a value is out of its range, or there is no kernel for the type.
    """

    heads: int
    head_size: int
    window: int
    shift: int
    cosine: bool
    scale: float
    dtype: str

    def __post_init__(self) -> None:
        require_positive(self, "heads", "head_size", "window")
        require(self.head_size <= 256, "a head size of at most 256", self.head_size)
        require(self.window <= 32, "a window of at most 32", self.window)
        require(0 <= self.shift < self.window, "a shift from 0 to less than the window", self.shift)
        require_bool(self, "cosine")
        require(0 < self.scale < math.inf, "a positive scale", self.scale)
        require_float_type(self.dtype)

    @classmethod
    def of(
        cls, head_size: int, heads: int, window: int, shift: int, cosine: bool, scale: float | None, dtype: str
    ) -> WindowConfig:
        """The configuration with a scale of 1/√D if none is given.

        Raises:
            ConfigError: as the class.
        """
        factor = 1 / math.sqrt(head_size) if scale is None else scale
        return cls(
            heads=heads,
            head_size=head_size,
            window=window,
            shift=shift,
            cosine=cosine,
            scale=factor,
            dtype=dtype,
        )

    def types(self) -> dict[str, str]:
        """Arguments of the kernel → Triton's types, in their order."""
        scales = {"scales": "*fp32"} if self.cosine else {}
        floats = dict.fromkeys(("q", "k", "v", "table"), pointer(self.dtype))
        return {**floats, **scales, "height": "i32", "width": "i32", "out": pointer(self.dtype)}

    @property
    def block(self) -> int:
        """The head size as the kernel computes it."""
        return power_of_two(_SMALLEST_PRODUCT, self.head_size)

    @property
    def places(self) -> int:
        """Of a window, as the kernel counts them at least."""
        return power_of_two(_SMALLEST_PRODUCT, self.window**2)

    @property
    def shape(self) -> str:
        """What tiles depend on."""
        scores = "cosines" if self.cosine else "products"
        bits = 32 if self.dtype == "float32" else 16
        return f"{bits} bits, heads of {self.block}, {self.places} places, {scores}"

    def tiles(self, target: GpuTarget) -> Tiles:
        """What was timed on the target, or what fits its shared memory without spilling registers."""
        if self.dtype == "float32":
            queries, keys = (32, 16) if self.block <= 32 else (16, 16)
        else:
            queries, keys = (64, 64) if self.block <= 128 else (32, 32)
        stages = 2 if target.shared_bytes > 128 * 1024 or target.matrix_unit != "mma" else 1
        fitting = Tiles(queries=min(self.places, queries), keys=min(self.places, keys), warps=4, stages=stages)
        return find_tiles(target, KERNEL, self.shape) or fitting

    def constants(self, target: GpuTarget) -> tuple[dict[str, object], int, int]:
        """Constants of the kernel, its warps and its stages."""
        tile = self.tiles(target)
        constants: dict[str, object] = {
            "HEADS": self.heads,
            "HEAD_SIZE": self.head_size,
            "WINDOW": self.window,
            "SHIFT": self.shift,
            "COSINE": self.cosine,
            "SCALE": self.scale,
            "LOG2_E": LOG2_E,
            "BLOCK_S": tile.queries,
            "BLOCK_T": tile.keys,
            "BLOCK_D": self.block,
            "PRECISION": product_precision(self.dtype),
        }
        return constants, tile.warps, tile.stages
