"""Sizes that the decode kernels share: rows of a tile, keys of a tile, and into how many splits a cache is cut."""

from __future__ import annotations

from export.kernels.gpu_targets import GpuTarget
from export.kernels.heads import HeadsConfig
from export.kernels.specialisation import power_of_two, quotient_up
from models.config import require

MOST_ROWS = 64
"""Query rows that share a key and value head: new positions × heads a group. Beyond, flash_attention is faster."""
MOST_SPLITS = 128
_FEWEST_KEYS = 256
"""Of a split: fewer are not worth a program of their own."""
_SMALLEST_PRODUCT = 16


def splits_for(groups: int, capacity: int, multiprocessors: int) -> int:
    """Into how many splits a cache is cut so that two programs stand ready for every multiprocessor.

    Args:
        groups: batch × key and value heads.
        capacity: of the cache, or the longest length expected.
        multiprocessors: of the GPU.

    Returns:
        A power of two.
    """
    wanted = max(1, min(quotient_up(2 * multiprocessors, groups), quotient_up(capacity, _FEWEST_KEYS), MOST_SPLITS))
    return power_of_two(1, wanted)


def require_few_rows(heads: HeadsConfig, queries: int) -> int:
    """Query rows that share a head.

    Raises:
        ConfigError: they are more than the kernel holds.
    """
    rows = heads.heads // heads.kv_heads * queries
    require(0 < rows <= MOST_ROWS, f"1 to {MOST_ROWS} rows a key head", rows, "use flash_attention")
    return rows


def decode_constants(
    heads: HeadsConfig, rows: int, splits: int, target: GpuTarget
) -> tuple[dict[str, object], int, int]:
    """Constants of a decode kernel, its warps and its stages.

    Raises:
        ConfigError: too many rows, or no splits.
    """
    require(0 < rows <= MOST_ROWS, f"1 to {MOST_ROWS} rows a key head", rows, "use flash_attention")
    require(0 < splits <= MOST_SPLITS, f"1 to {MOST_SPLITS} splits", splits)
    block_t = max(_SMALLEST_PRODUCT, 16 * 1024 // heads.row_bytes // (1 if target.shared_bytes > 128 * 1024 else 2))
    constants: dict[str, object] = {
        "HEADS": heads.heads,
        "KV_HEADS": heads.kv_heads,
        "SPLITS": splits,
        "BLOCK_R": power_of_two(_SMALLEST_PRODUCT, rows),
        "BLOCK_T": min(block_t, 128),
        **heads.constants(),
    }
    return constants, 4, 3
