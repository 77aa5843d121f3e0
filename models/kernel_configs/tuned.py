"""Tiles that were timed on a GPU, where one was; elsewhere kernels take what fits its shared memory and registers.

``tiles.json`` beside this file: target → kernel → shape → tiles. ``python -m benchmarks.gpu.tiles`` times them on
the GPU at hand and writes them there; the table of docs/reference/kernels.md is to be made again after it. A plugin's
kernel, which may have less shared memory than the GPU has, is another target: ``sm_90 within 48 KiB``.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from models.kernel_configs.gpu_targets import GPU_TARGETS, GpuTarget

FILE = Path(__file__).with_name("tiles.json")
Table = dict[str, dict[str, dict[str, "Tiles"]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """How a kernel divides its work.

    Attributes:
        queries: of a tile; of a decode kernel, its query rows, which are not chosen.
        keys: of a tile.
        warps: of 32 threads, of a block.
        stages: tiles that are loaded ahead.
    """

    queries: int
    keys: int
    warps: int
    stages: int


def read(path: Path = FILE) -> Table:
    return {
        target: {kernel: {shape: Tiles(**said) for shape, said in shapes.items()} for kernel, shapes in kernels.items()}
        for target, kernels in json.loads(path.read_text()).items()
    }


def write(table: Table, path: Path = FILE) -> None:
    plain: dict[str, dict[str, dict[str, dict[str, int]]]] = {}
    for target, kernels in table.items():
        for kernel, shapes in kernels.items():
            for shape, tiles in shapes.items():
                plain.setdefault(target, {}).setdefault(kernel, {})[shape] = asdict(tiles)
    path.write_text(json.dumps(plain, indent=1, sort_keys=True) + "\n")


TABLE = read()
"""What kernels go by; whoever times tiles puts others in their place meanwhile."""


def name_of(target: GpuTarget) -> str:
    """A target as the table names it."""
    whole = target == GPU_TARGETS[target.name]
    return target.name if whole else f"{target.name} within {target.shared_bytes // 1024} KiB"


def find_tiles(target: GpuTarget, kernel: str, shape: str) -> Tiles | None:
    """The tiles that were best, if any were timed.

    Args:
        target: what the kernel will run on.
        kernel: its name.
        shape: what the tiles depend on.
    """
    return TABLE.get(name_of(target), {}).get(kernel, {}).get(shape)
