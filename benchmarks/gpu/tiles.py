"""Times the tiles of our kernels on the GPU at hand, and keeps the best where the kernels read them.

A candidate must fit the GPU's shared memory and registers, and give the answer of the tiles that fit by rule. It is
judged by the geometric mean of its times over some sizes; one that is not 2 % faster than those is not kept. Written
are the best of all for ``sm_XX`` and, for plugins, the best of those that need no more shared memory than any launch
may have. Other targets' tiles stay. All candidates are compiled first, by a process for each core: Triton keeps on the
disk what they make. Afterwards: ``python -m models.kernels.figures``, ``make test-gpu``, and commit.

``--quick`` is a trial with two candidates on tiny sizes, on any machine; without a GPU kernels are interpreted
(TRITON_INTERPRET=1).
"""

import argparse
import math
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from triton.runtime.errors import TritonError

from attendant.errors import ExportError, MachineError
from attendant.progress import progress
from benchmarks.gpu.candidates import TilesSearch, searches
from benchmarks.gpu.clock import milliseconds
from models.kernel_configs import tuned
from models.kernel_configs.gpu_targets import WITHOUT_LEAVE_BYTES, GpuTarget, target_of
from models.kernel_configs.tuned import Tiles
from models.kernels.compile import compile_kernel
from models.kernels.interpreter import interprets

_WORTH = 0.98
_AGREES = 1e-2
Clock = Callable[[Callable[[], object]], float]


@dataclass(frozen=True, slots=True)
class TimedTiles:
    """A candidate that works: its time over that of the tiles that fit by rule, and the shared memory of a block."""

    tiles: Tiles
    relative: float
    shared_bytes: int


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.tiles", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", nargs="*", help="some of them; all if none is named")
    parser.add_argument("--out", type=Path, default=tuned.FILE, help="the table, which is read first if it is there")
    parser.add_argument("--quick", action="store_true", help="a trial on tiny sizes, on any machine")
    args = parser.parse_args()
    if not args.quick and not torch.cuda.is_available():
        raise MachineError("a CUDA device", "none", "run this where PyTorch sees one, or try --quick")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    chosen = [one for one in searches(args.quick, target_of(device)) if not args.kernels or one.kernel in args.kernels]
    table = tuned.read(args.out) if args.out.is_file() else {}
    compiled = compile_all(chosen, target_of(device), args.quick)
    with progress("shapes", len(chosen)) as advance:
        for search, shared_bytes in zip(chosen, compiled, strict=True):
            timed = list(time_candidates(search, shared_bytes, device, partial(milliseconds, device=device, timed=10)))
            kept = keep(table, search, target_of(device), timed)
            tuned.write(table, args.out)  # what is known survives an interruption
            advance(f"{search.kernel}, {search.shape}: {kept}")


def compile_all(chosen: list[TilesSearch], target: GpuTarget, quick: bool) -> list[dict[Tiles, int]]:
    """The candidates of each search that fit, with the shared memory of a block; what fits by rule comes first.

    Each is launched once as well, because a launch has a form of its own. Nothing is timed meanwhile.
    """
    tried = [
        list(dict.fromkeys((*tiles_by_rule(one, target), *tiles_by_rule(one, narrow(target)), *one.candidates)))
        for one in chosen
    ]
    if interprets():
        return [dict.fromkeys(candidates, 0) for candidates in tried]
    jobs = [(place, tiles) for place, candidates in enumerate(tried) for tiles in candidates]
    words = [(chosen[place].kernel, chosen[place].shape, tiles, quick) for place, tiles in jobs]
    found: list[dict[Tiles, int]] = [{} for _ in chosen]
    context = multiprocessing.get_context("spawn")  # CUDA does not outlive a fork
    with progress("compiled", len(jobs)) as advance, ProcessPoolExecutor(mp_context=context) as pool:
        for (place, tiles), needed in zip(jobs, pool.map(compile_candidate, *zip(*words, strict=True)), strict=True):
            if needed is not None:
                found[place][tiles] = needed
            advance(f"{chosen[place].kernel}, {chosen[place].shape}: {tiles}")
    return found


def compile_candidate(kernel: str, shape: str, tiles: Tiles, quick: bool) -> int | None:
    """What a block takes of shared memory; None where that is more than there is, or registers spill."""
    device = torch.device("cuda")
    target = target_of(device)
    search = next(one for one in searches(quick, target) if (one.kernel, one.shape) == (kernel, shape))
    with use_only(target, search, tiles), suppress(ExportError, RuntimeError, TritonError):  # passes: RuntimeError
        needed = compile_kernel(search.specialised(target), target.name).shared_bytes
        for make in search.cases:
            make(device).ours()
        torch.cuda.synchronize()
        return needed
    return None


def time_candidates(
    search: TilesSearch, shared_bytes: dict[Tiles, int], device: torch.device, clock: Clock
) -> Iterator[TimedTiles]:
    """The candidates that give the right answer, with their times.

    Args:
        search: for which kernel, and on what.
        shared_bytes: of each that fits.
        device: a GPU, or a CPU where kernels are interpreted.
        clock: says the milliseconds of a call.
    """
    target = target_of(device)
    cases = [make(device) for make in search.cases]
    with use_only(target, search, None):
        wanted = [case.ours().float() for case in cases]
        times = [clock(case.ours) for case in cases]
    for tiles, needed in shared_bytes.items():
        with use_only(target, search, tiles), suppress(TritonError):
            pairs = zip((one.ours().float() for one in cases), wanted, strict=True)
            if not all(torch.allclose(*pair, atol=_AGREES, rtol=_AGREES) for pair in pairs):
                continue
            ratios = [clock(case.ours) / time for case, time in zip(cases, times, strict=True)]
            yield TimedTiles(tiles, math.prod(ratios) ** (1 / len(ratios)), needed)


def tiles_by_rule(search: TilesSearch, target: GpuTarget) -> list[Tiles]:
    """What a kernel takes by rule: with as many loads ahead as it says, and then with fewer, as plugins try."""
    with use_only(target, search, None):
        tiles = search.rule(target)
    return [replace(tiles, stages=stages) for stages in range(tiles.stages, 0, -1)]


def narrow(target: GpuTarget) -> GpuTarget:
    """The target that a plugin's kernel has."""
    return replace(target, shared_bytes=WITHOUT_LEAVE_BYTES)


@contextmanager
def use_only(target: GpuTarget, search: TilesSearch, tiles: Tiles | None) -> Iterator[None]:
    """Have the kernel take certain tiles, or those that fit by rule, in the place of what the table says."""
    before = dict(tuned.TABLE)
    tuned.TABLE.clear()
    if tiles is not None:
        tuned.TABLE[tuned.name_of(target)] = {search.kernel: {search.shape: tiles}}
    try:
        yield
    finally:
        tuned.TABLE.clear()
        tuned.TABLE.update(before)


def keep(table: tuned.Table, search: TilesSearch, target: GpuTarget, timed: list[TimedTiles]) -> str:
    """Put the best into a table, for the GPU and for its plugins; says what was done."""
    done = []
    for aim in (target, narrow(target)):
        shapes = table.setdefault(tuned.name_of(aim), {}).setdefault(search.kernel, {})
        shapes.pop(search.shape, None)
        fitting = [one for one in timed if one.shared_bytes <= aim.shared_bytes]
        by_rule = tiles_by_rule(search, aim)
        now = next((one.relative for tiles in by_rule for one in fitting if one.tiles == tiles), math.inf)
        best = min(fitting, key=lambda one: one.relative, default=None)
        if best is None or best.relative >= _WORTH * now:
            done.append("as it was")
        else:
            shapes[search.shape] = best.tiles
            done.append(f"{best.tiles}, {best.relative / now:.2f} of the time")
    return "; plugins ".join(done)


if __name__ == "__main__":
    main()
