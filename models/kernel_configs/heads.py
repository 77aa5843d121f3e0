"""The heads of an attention kernel: how many, how large, in which type, and what is fixed with them."""

import math
from dataclasses import dataclass

from torch import Tensor

from attendant.config import require, require_positive
from models.kernel_configs.specialisation import LOG2_E, power_of_two, product_precision, require_float_type, type_name

_SMALLEST_PRODUCT = 16
"""Of a side of ``tl.dot``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsConfig:
    """Query heads that share key and value heads.

    Attributes:
        heads: H.
        kv_heads: G; H is a multiple of it.
        head_size: D, at most 256; computed as the next power of two.
        dtype: of queries, keys, values and output.
        scale: of the scores.

    Raises:
        ConfigError: a number is not positive, the heads cannot be grouped, a head is too large, or there is no kernel
            for the type.
    """

    heads: int
    kv_heads: int
    head_size: int
    dtype: str
    scale: float

    def __post_init__(self) -> None:
        require_positive(self, "heads", "kv_heads", "head_size")
        require(self.heads % self.kv_heads == 0, f"{self.heads} heads to be a multiple of kv_heads", self.kv_heads)
        require(self.head_size <= 256, "a head size of at most 256", self.head_size)
        require_float_type(self.dtype)
        require(0 < self.scale < math.inf, "a positive scale", self.scale)

    @property
    def block(self) -> int:
        """The head size as the kernels compute it."""
        return power_of_two(_SMALLEST_PRODUCT, self.head_size)

    @property
    def bits(self) -> int:
        return 32 if self.dtype == "float32" else 16

    @property
    def row_bytes(self) -> int:
        """Of one head of one position, as it lies in shared memory."""
        return self.block * self.bits // 8

    def constants(self) -> dict[str, object]:
        """What kernels of attention take of this, by the names of their arguments."""
        return {
            "HEAD_SIZE": self.head_size,
            "SCALE_LOG2": self.scale * LOG2_E,
            "BLOCK_D": self.block,
            "PRECISION": product_precision(self.dtype),
        }


def heads_of(queries: Tensor, keys: Tensor, scale: float | None) -> HeadsConfig:
    """The heads of queries ``[B, H, S, D]`` and keys ``[B, G, T, D]``; the scale is 1/√D if not given.

    Raises:
        ConfigError: there is no kernel for them.
    """
    size = queries.shape[3]
    factor = 1 / math.sqrt(size) if scale is None else scale
    return HeadsConfig(
        heads=queries.shape[1], kv_heads=keys.shape[1], head_size=size, dtype=type_name(queries.dtype), scale=factor
    )
