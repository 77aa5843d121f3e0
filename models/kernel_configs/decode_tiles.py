"""Sizes that the decode kernels share: rows of a tile, keys of a tile, and into how many splits a cache is cut."""

from attendant.config import require
from models.kernel_configs.gpu_targets import GpuTarget
from models.kernel_configs.heads import HeadsConfig
from models.kernel_configs.specialisation import power_of_two, quotient_up
from models.kernel_configs.tuned import Tiles, find_tiles

KERNEL = "decode_attention"
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
MOST_SPLITS = SPLITS[-1]
_FEWEST_KEYS = 256
"""Of a split: fewer are not worth a program of their own."""
_PROGRAMS_A_MULTIPROCESSOR = 3
"""Of 70 KiB each, where one has 227 KiB; of 37 KiB, where one has 99 KiB, it holds two."""
_MOST_TIMES_FILLED = 2
"""More splits than that only make more to combine."""
_SMALLEST_PRODUCT = 16


def splits_for(groups: int, capacity: int, multiprocessors: int) -> int:
    """Into how many splits a cache is cut so that the programs fill a GPU a whole number of times, or nearly so.

    Five hundred programs on a GPU that holds four hundred at a time take as long as eight hundred.

    Args:
        groups: batch × key and value heads.
        capacity: of the cache, or the longest length expected.
        multiprocessors: of the GPU.

    Returns:
        One of :data:`SPLITS`: each is a kernel of its own.
    """
    side_by_side = _PROGRAMS_A_MULTIPROCESSOR * multiprocessors
    most = max(1, min(quotient_up(capacity, _FEWEST_KEYS), _MOST_TIMES_FILLED * side_by_side // groups))

    def filled(splits: int) -> float:
        return groups * splits / (quotient_up(groups * splits, side_by_side) * side_by_side)

    return max((splits for splits in SPLITS if splits <= most), key=lambda splits: (round(filled(splits), 2), -splits))


def most_rows(heads: HeadsConfig) -> int:
    """Query rows that may share a key and value head, new positions × heads a group: more would spill registers."""
    if heads.dtype == "float32":
        return 16
    return 64 if heads.block <= 128 else 32


def rows_of(heads: HeadsConfig, queries: int) -> int:
    """Query rows that share a key and value head: R.

    Raises:
        ConfigError: they are more than the kernel holds.
    """
    rows, most = heads.heads // heads.kv_heads * queries, most_rows(heads)
    require(0 < rows <= most, f"1 to {most} rows a key head", rows, "use flash_attention")
    return rows


def tiles(heads: HeadsConfig, rows: int, target: GpuTarget) -> Tiles:
    """What was timed on the target, or what fits its shared memory without spilling registers."""
    tile_bytes = (16 if target.shared_bytes > 128 * 1024 else 8) * 1024
    many = rows > _SMALLEST_PRODUCT or heads.row_bytes > 256
    fitting = Tiles(
        queries=power_of_two(_SMALLEST_PRODUCT, rows),
        keys=min(128, max(_SMALLEST_PRODUCT, tile_bytes // heads.row_bytes)),
        warps=8 if many else 4,
        stages=3 if heads.dtype != "float32" else 2,
    )
    return find_tiles(target, KERNEL, shape_of(heads, rows)) or fitting


def shape_of(heads: HeadsConfig, rows: int) -> str:
    """What tiles depend on."""
    return f"{heads.bits} bits, heads of {heads.block}, {power_of_two(_SMALLEST_PRODUCT, rows)} rows"


def decode_constants(
    heads: HeadsConfig, rows: int, splits: int, target: GpuTarget
) -> tuple[dict[str, object], int, int]:
    """Constants of a decode kernel, its warps and its stages.

    Raises:
        ConfigError: too many rows, or no splits.
    """
    require(0 < rows <= most_rows(heads), f"1 to {most_rows(heads)} rows a key head", rows, "use flash_attention")
    require(0 < splits <= MOST_SPLITS, f"1 to {MOST_SPLITS} splits", splits)
    tile = tiles(heads, rows, target)
    constants: dict[str, object] = {
        "HEADS": heads.heads,
        "KV_HEADS": heads.kv_heads,
        "SPLITS": splits,
        "BLOCK_R": tile.queries,
        "BLOCK_T": tile.keys,
        **heads.constants(),
    }
    return constants, tile.warps, tile.stages
