"""Times the tiles of our kernels on the GPU at hand, and keeps the best where the kernels read them.

    python benchmarks/gpu/tiles.py [--kernels flash_attention …] [--out FILE] [--quick]

A candidate must fit the GPU's shared memory and registers, and give the answer of the tiles that fit by rule. It is
judged by the geometric mean of its times over some sizes; one that is not 2 % faster than those is not kept. Written
are the best of all for ``sm_XX`` and, for plugins, the best of those that need no more shared memory than any launch
may have. Other targets' tiles stay. Afterwards: ``python -m models.kernels.figures``, ``make test-gpu``, and commit.

``--quick`` is a trial with two candidates on tiny sizes, on any machine; without a GPU kernels are interpreted
(TRITON_INTERPRET=1).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from triton.runtime.errors import TritonError

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from attendant.errors import ExportError, MachineError  # noqa: E402
from attendant.progress import progress  # noqa: E402
from benchmarks.gpu.candidates import Question, questions  # noqa: E402
from benchmarks.gpu.clock import milliseconds  # noqa: E402
from models.kernel_configs import tuned  # noqa: E402
from models.kernel_configs.gpu_targets import WITHOUT_LEAVE_BYTES, GpuTarget, target_of  # noqa: E402
from models.kernel_configs.tuned import Tiles  # noqa: E402
from models.kernels.compile import compile_kernel  # noqa: E402
from models.kernels.interpreter import interprets  # noqa: E402

_WORTH = 0.98
_AGREES = 1e-2
Clock = Callable[[Callable[[], object]], float]


@dataclass(frozen=True, slots=True)
class Timed:
    """A candidate that works.

    Attributes:
        tiles: the candidate.
        relative: its time, of that of the tiles that fit the GPU by rule.
        shared_bytes: of a block.
    """

    tiles: Tiles
    relative: float
    shared_bytes: int


def main() -> None:
    """Time every candidate and write the table.

    Raises:
        MachineError: there is no GPU.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", nargs="*", help="some of them; all if none is named")
    parser.add_argument("--out", type=Path, default=tuned.FILE, help="the table, which is read first if it is there")
    parser.add_argument("--quick", action="store_true", help="a trial on tiny sizes, on any machine")
    given = parser.parse_args()
    if not given.quick and not torch.cuda.is_available():
        raise MachineError("a CUDA device", "none", "run this where PyTorch sees one, or try --quick")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    asked = [one for one in questions(given.quick) if not given.kernels or one.kernel in given.kernels]
    table = tuned.read(given.out) if given.out.is_file() else {}
    with progress("shapes", len(asked)) as advance:
        for question in asked:
            timed = list(works(question, device, partial(milliseconds, device=device, timed=10)))
            kept = keep(table, question, target_of(device), timed)
            tuned.write(table, given.out)  # what is known survives an interruption
            advance(f"{question.kernel}, {question.shape}: {kept}")


def works(question: Question, device: torch.device, clock: Clock) -> Iterator[Timed]:
    """The candidates that fit and give the right answer, with their times; what fits by rule comes first."""
    target = target_of(device)
    cases = [make(device) for make in question.cases]
    with only(target, question, None):
        wanted = [case.ours() for case in cases]
        times = [clock(case.ours) for case in cases]
    for tiles in dict.fromkeys((*ruled(question, target), *ruled(question, narrowed(target)), *question.candidates)):
        with only(target, question, tiles), suppress(TritonError):
            needed = shared_bytes(question, target)
            if needed is None or not all(
                agree(*pair) for pair in zip((one.ours() for one in cases), wanted, strict=True)
            ):
                continue
            ratios = [clock(case.ours) / time for case, time in zip(cases, times, strict=True)]
            yield Timed(tiles, math.prod(ratios) ** (1 / len(ratios)), needed)


def ruled(question: Question, target: GpuTarget) -> list[Tiles]:
    """What a kernel takes by rule: with as many loads ahead as it says, and then with fewer, as plugins try."""
    with only(target, question, None):
        tiles = question.ruled(target)
    return [replace(tiles, stages=stages) for stages in range(tiles.stages, 0, -1)]


def narrowed(target: GpuTarget) -> GpuTarget:
    """The target that a plugin's kernel has."""
    return replace(target, shared_bytes=WITHOUT_LEAVE_BYTES)


@contextmanager
def only(target: GpuTarget, question: Question, tiles: Tiles | None) -> Iterator[None]:
    """Have the kernel take certain tiles, or those that fit by rule, in the place of what the table says."""
    before = dict(tuned.TABLE)
    tuned.TABLE.clear()
    if tiles is not None:
        tuned.TABLE[tuned.name_of(target)] = {question.kernel: {question.shape: tiles}}
    try:
        yield
    finally:
        tuned.TABLE.clear()
        tuned.TABLE.update(before)


def shared_bytes(question: Question, target: GpuTarget) -> int | None:
    """What a block takes of shared memory; None where that is more than there is, or registers spill."""
    if interprets():
        return 0
    try:
        return compile_kernel(question.specialised(target), target.name).shared_bytes
    except (ExportError, RuntimeError):  # Triton's passes say RuntimeError
        return None


def agree(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether two answers are the same but for roundings."""
    return bool(torch.allclose(found.float(), wanted.float(), atol=_AGREES, rtol=_AGREES))


def keep(table: tuned.Table, question: Question, target: GpuTarget, timed: list[Timed]) -> str:
    """Put the best into a table, for the GPU and for its plugins; says what was done."""
    return "; plugins ".join(_kept(table, question, aim, timed) for aim in (target, narrowed(target)))


def _kept(table: tuned.Table, question: Question, target: GpuTarget, timed: list[Timed]) -> str:
    kernels = table.setdefault(tuned.name_of(target), {})
    shapes = kernels.setdefault(question.kernel, {})
    shapes.pop(question.shape, None)
    fitting = [one for one in timed if one.shared_bytes <= target.shared_bytes]
    usual = ruled(question, target)
    now = next((one.relative for tiles in usual for one in fitting if one.tiles == tiles), math.inf)
    best = min(fitting, key=lambda one: one.relative, default=None)
    if best is None or best.relative >= _WORTH * now:
        return "as it was"
    shapes[question.shape] = best.tiles
    return f"{best.tiles}, {best.relative / now:.2f} of the time"


if __name__ == "__main__":
    main()
