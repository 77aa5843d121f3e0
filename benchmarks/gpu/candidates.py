"""The tiles that are tried for each kernel and shape, and the sizes that decide between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Which tiles are best for one kernel and shape.

    Attributes:
        kernel: as the table names it.
        shape: likewise.
        candidates: what is tried.
        cases: the sizes that it is timed on.
        specialised: the kernel with the tiles that the table says.
        ruled: the tiles that it takes where the table says none.
    """

    kernel: str
    shape: str
    candidates: tuple[Tiles, ...]
    cases: tuple[Callable[[torch.device], Case], ...]
    specialised: Callable[[GpuTarget], Specialisation]
    ruled: Callable[[GpuTarget], Tiles]


def questions(quick: bool) -> list[Question]:
    """All of them, or one a kernel on tiny sizes."""
    return list(_tiny() if quick else _usual())


def _usual() -> Iterator[Question]:
    for size, sizes in ((64, ((4, 16, 16, 2048), (32, 12, 12, 256))), (128, ((1, 32, 8, 2048), (1, 32, 8, 8192)))):
        yield _flash(size, sizes, (64, 128), (32, 64, 128), (4, 8), (2, 3, 4))
    yield _flash(256, ((1, 8, 2, 2048),), (64, 128), (16, 32, 64), (4, 8), (1, 2, 3))
    for size, heads in ((64, 32), (128, 32)):
        yield _decode(size, heads, 8, ((1, 4096), (16, 4096), (4, 16384)), (32, 64, 128), (2, 4, 8), (2, 3, 4))
    for window, side, heads, cosine in ((7, 56, 3, False), (8, 64, 3, True), (16, 64, 4, True)):
        yield _window(window, side, heads, 32, cosine, 32, (32, 64, 128), (32, 64), (2, 4, 8), (1, 2))


def _tiny() -> Iterator[Question]:
    yield _flash(16, ((1, 2, 1, 20),), (16,), (16, 32), (4,), (2,))
    yield _decode(16, 4, 2, ((2, 40),), (16, 32), (4,), (2,))
    yield _window(4, 8, 2, 16, True, 1, (16,), (16,), (2, 4), (1,))


def _flash(
    size: int,
    sizes: tuple[tuple[int, int, int, int], ...],
    queries: tuple[int, ...],
    keys: tuple[int, ...],
    warps: tuple[int, ...],
    stages: tuple[int, ...],
) -> Question:
    _, heads, kv_heads, _ = sizes[0]
    config = HeadsConfig(heads=heads, kv_heads=kv_heads, head_size=size, dtype="float16", scale=size**-0.5)
    return Question(
        kernel=flash_attention.KERNEL,
        shape=flash_attention.shape_of(config),
        candidates=_all(queries, keys, warps, stages),
        cases=tuple(_prefill(batch, h, g, length, size) for batch, h, g, length in sizes),
        specialised=partial(flash_attention.specialise, config, True),
        ruled=partial(flash_attention.tiles, config),
    )


def _prefill(batch: int, heads: int, kv_heads: int, length: int, size: int) -> Callable[[torch.device], Case]:
    return lambda device: prefill(batch, heads, kv_heads, length, size, True, device)


def _decode(
    size: int,
    heads: int,
    kv_heads: int,
    sizes: tuple[tuple[int, int], ...],
    keys: tuple[int, ...],
    warps: tuple[int, ...],
    stages: tuple[int, ...],
) -> Question:
    config = HeadsConfig(heads=heads, kv_heads=kv_heads, head_size=size, dtype="float16", scale=size**-0.5)
    rows = heads // kv_heads
    return Question(
        kernel=decode_tiles.KERNEL,
        shape=decode_tiles.shape_of(config, rows),
        candidates=_all((16,), keys, warps, stages),
        cases=tuple(_step(batch, heads, kv_heads, cached, size) for batch, cached in sizes),
        specialised=lambda target: decode_attention.specialise(config, True, rows, 16, target),
        ruled=partial(decode_tiles.tiles, config, rows),
    )


def _step(batch: int, heads: int, kv_heads: int, cached: int, size: int) -> Callable[[torch.device], Case]:
    def make(device: torch.device) -> Case:
        on_gpu = device.type == "cuda"
        found = torch.cuda.get_device_properties(device).multi_processor_count if on_gpu else _MULTIPROCESSORS
        return decode(batch, heads, kv_heads, cached, size, found, device)

    return make


def _window(
    window: int,
    side: int,
    heads: int,
    size: int,
    cosine: bool,
    batch: int,
    queries: tuple[int, ...],
    keys: tuple[int, ...],
    warps: tuple[int, ...],
    stages: tuple[int, ...],
) -> Question:
    config = WindowConfig.of(size, heads, window, window // 2, cosine, None, "float16")
    fitting = tuple(one for one in _all(queries, keys, warps, stages) if max(one.queries, one.keys) <= config.places)
    return Question(
        kernel=window_tiles.KERNEL,
        shape=config.shape,
        candidates=fitting,
        cases=(lambda device: windows(batch, side, heads, size, window, window // 2, device, cosine, compiles=False),),
        specialised=partial(window_attention.specialise, config),
        ruled=config.tiles,
    )


def _all(
    queries: tuple[int, ...], keys: tuple[int, ...], warps: tuple[int, ...], stages: tuple[int, ...]
) -> tuple[Tiles, ...]:
    names = ("queries", "keys", "warps", "stages")
    return tuple(Tiles(**dict(zip(names, chosen, strict=True))) for chosen in product(queries, keys, warps, stages))
