"""The tiles that are tried for each kernel and shape, and the sizes that decide between them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import NamedTuple

import torch

from benchmarks.gpu.cases import Case, decode, prefill
from benchmarks.gpu.window_cases import windows
from models.kernel_configs import decode_tiles, window_tiles
from models.kernel_configs.gpu_targets import GpuTarget
from models.kernel_configs.heads import HeadsConfig
from models.kernel_configs.specialisation import Specialisation
from models.kernel_configs.tuned import Tiles
from models.kernel_configs.window_tiles import WindowConfig
from models.kernels import decode_attention, flash_attention, window_attention

_MULTIPROCESSORS = 132
Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TilesSearch:
    """Which tiles are best for one kernel and shape, as the table names them.

    Attributes:
        candidates: what is tried.
        cases: the sizes that it is timed on.
        specialised: the kernel with the tiles that the table says.
        rule: the tiles that it takes where the table says none.
    """

    kernel: str
    shape: str
    candidates: tuple[Tiles, ...]
    cases: tuple[Callable[[torch.device], Case], ...]
    specialised: Callable[[GpuTarget], Specialisation]
    rule: Callable[[GpuTarget], Tiles]


class Grid(NamedTuple):
    """What is combined."""

    queries: Sizes
    keys: Sizes
    warps: Sizes
    stages: Sizes

    def tiles(self) -> tuple[Tiles, ...]:
        return tuple(Tiles(**dict(zip(self._fields, sizes, strict=True))) for sizes in product(*self))


def searches(quick: bool, target: GpuTarget) -> Iterator[TilesSearch]:
    """All that the target has kernels for, or one a kernel on tiny sizes."""
    if quick:
        yield search_flash(16, ((1, 2, 1, 20),), Grid((16,), (16, 32), (4,), (2,)))
        yield search_decode(16, 4, 2, ((2, 40),), Grid((16,), (16, 32), (4,), (2,)))
        yield search_window(4, 8, 2, 16, True, 1, Grid((16,), (16,), (2, 4), (1,)))
        return
    for size, sizes in ((64, ((4, 16, 16, 2048), (32, 12, 12, 256))), (128, ((1, 32, 8, 2048), (1, 32, 8, 8192)))):
        yield search_flash(size, sizes, Grid((64, 128), (32, 64, 128), (4, 8), (2, 3, 4)))
    yield search_flash(256, ((1, 8, 2, 2048),), Grid((64, 128), (16, 32, 64), (4, 8), (1, 2, 3)))
    for size, heads in ((64, 32), (128, 32)):
        grid = Grid((16,), (32, 64, 128), (2, 4, 8), (2, 3, 4))
        yield search_decode(size, heads, 8, ((1, 4096), (16, 4096), (4, 16384)), grid)
    for window, side, heads, cosine in ((7, 56, 3, False), (8, 64, 3, True), (16, 64, 4, True)):
        yield search_window(window, side, heads, 32, cosine, 32, Grid((32, 64, 128), (32, 64), (2, 4, 8), (1, 2)))
    if target.name == "sm_90":
        yield search_hopper(64, ((4, 16, 16, 2048), (1, 32, 8, 8192)), (2, 3, 4, 5))
        yield search_hopper(128, ((1, 32, 8, 2048), (1, 32, 8, 8192)), (2, 3))


def search_flash(size: int, sizes: tuple[tuple[int, int, int, int], ...], grid: Grid) -> TilesSearch:
    _, heads, kv_heads, _ = sizes[0]
    config = HeadsConfig(heads=heads, kv_heads=kv_heads, head_size=size, dtype="float16", scale=size**-0.5)
    return TilesSearch(
        kernel=flash_attention.KERNEL,
        shape=flash_attention.shape_of(config),
        candidates=grid.tiles(),
        cases=tuple(partial(prefill, *of_case, size, True) for of_case in sizes),
        specialised=partial(flash_attention.specialise, config, True),
        rule=partial(flash_attention.tiles, config),
    )


def search_hopper(size: int, sizes: tuple[tuple[int, int, int, int], ...], stages: Sizes) -> TilesSearch:
    from models.kernels import hopper_flash_attention as hopper  # here, because Triton may lack Gluon
    from models.kernels.hopper_partitions import WARPS

    _, heads, kv_heads, _ = sizes[0]
    config = HeadsConfig(heads=heads, kv_heads=kv_heads, head_size=size, dtype="float16", scale=size**-0.5)
    return TilesSearch(
        kernel=hopper.KERNEL,
        shape=flash_attention.shape_of(config),
        candidates=Grid((128,), (64, 128), (WARPS,), stages).tiles(),
        cases=tuple(partial(prefill, *of_case, size, True, attend=hopper.hopper_flash_attention) for of_case in sizes),
        specialised=partial(hopper.specialise, config, True),
        rule=partial(hopper.tiles, config),
    )


def search_decode(size: int, heads: int, kv_heads: int, sizes: tuple[tuple[int, int], ...], grid: Grid) -> TilesSearch:
    config = HeadsConfig(heads=heads, kv_heads=kv_heads, head_size=size, dtype="float16", scale=size**-0.5)
    rows = heads // kv_heads

    def make(batch: int, cached: int, device: torch.device) -> Case:
        on_gpu = device.type == "cuda"
        found = torch.cuda.get_device_properties(device).multi_processor_count if on_gpu else _MULTIPROCESSORS
        return decode(batch, heads, kv_heads, cached, size, found, device)

    return TilesSearch(
        kernel=decode_tiles.KERNEL,
        shape=decode_tiles.shape_of(config, rows),
        candidates=grid.tiles(),
        cases=tuple(partial(make, batch, cached) for batch, cached in sizes),
        specialised=lambda target: decode_attention.specialise(config, True, rows, 16, target),
        rule=partial(decode_tiles.tiles, config, rows),
    )


def search_window(window: int, side: int, heads: int, size: int, cosine: bool, batch: int, grid: Grid) -> TilesSearch:
    config = WindowConfig.of(size, heads, window, window // 2, cosine, None, "float16")
    return TilesSearch(
        kernel=window_tiles.KERNEL,
        shape=config.shape,
        candidates=tuple(one for one in grid.tiles() if max(one.queries, one.keys) <= config.places),
        cases=(lambda device: windows(batch, side, heads, size, window, window // 2, device, cosine, compiles=False),),
        specialised=partial(window_attention.specialise, config),
        rule=config.tiles,
    )
