"""The highest load that keeps its objectives: first the given levels, then bisection between the last two.

A level fails if it misses an objective, or if its run is invalid by the server's doing: errors, stalls, or latencies
that never settle, which is what too much load looks like. Where the generator itself was the limit, the level is
measured once more, for it may have been disturbed; then the search ends: nothing above says anything of the server.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clients.load.analysis.summary import Summary
from clients.load.analysis.validity import Fault

CLOSE = 1.05
"""The search ends where the lowest failing level is less than a twentieth above the highest that passes."""
_GENERATORS = (Fault.GENERATOR, Fault.CLIENT)
Measure = Callable[[float], Summary]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStep:
    """One level that was measured.

    Attributes:
        level: requests a second, or requests at once.
        summary: what was found.
    """

    level: float
    summary: Summary

    @property
    def passes(self) -> bool:
        """Whether it is valid and keeps every objective."""
        return self.summary.validity.valid and self.summary.met

    @property
    def generator_was_the_limit(self) -> bool:
        """Whether it says nothing of the server."""
        return any(reason.fault in _GENERATORS for reason in self.summary.validity.reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """Levels in ascending order, and what they say.

    Attributes:
        steps: all that were measured.
        ended: why no more were.
    """

    steps: tuple[SweepStep, ...]
    ended: str

    @property
    def highest(self) -> SweepStep | None:
        """The highest level below every failing one; None if the lowest failed."""
        passing = None
        for step in self.steps:
            if not step.passes:
                break
            passing = step
        return passing


def measure_all(levels: Sequence[float], measure: Measure) -> SweepResult:
    steps = tuple(SweepStep(level=level, summary=measure(level)) for level in sorted(levels))
    return SweepResult(steps=steps, ended="every level was measured")


def find_highest(levels: Sequence[float], measure: Measure, runs: int, whole: bool = False) -> SweepResult:
    """Measure levels in ascending order until one fails, then bisect.

    Args:
        levels: at least one.
        measure: runs a level.
        runs: at most so many between the given levels.
        whole: whether levels are whole numbers, of requests at once.
    """
    steps: list[SweepStep] = []
    for level in sorted(levels):
        steps.append(_measure_step(level, measure))
        if not steps[-1].passes:
            break
    if steps[-1].passes:
        return SweepResult(steps=tuple(steps), ended="the highest level given keeps them: give higher ones")
    if len(steps) == 1:
        return SweepResult(steps=tuple(steps), ended="the lowest level given fails already: give lower ones")
    ended = _bisect(steps, measure, runs, whole)
    return SweepResult(steps=tuple(sorted(steps, key=lambda step: step.level)), ended=ended)


def _measure_step(level: float, measure: Measure) -> SweepStep:
    step = SweepStep(level=level, summary=measure(level))
    return SweepStep(level=level, summary=measure(level)) if step.generator_was_the_limit else step


def _bisect(steps: list[SweepStep], measure: Measure, runs: int, whole: bool) -> str:
    passing, failing = steps[-2], steps[-1]
    for _ in range(runs):
        if failing.generator_was_the_limit:
            return f"at {failing.level:g} the generator was the limit: nothing above {passing.level:g} is known"
        level = round((passing.level * failing.level) ** 0.5) if whole else (passing.level * failing.level) ** 0.5
        if failing.level / passing.level <= CLOSE or level in (passing.level, failing.level):
            return f"{passing.level:.4g} keeps them and {failing.level:.4g} does not"
        steps.append(_measure_step(level, measure))
        passing, failing = (steps[-1], failing) if steps[-1].passes else (passing, steps[-1])
    return f"{passing.level:.4g} keeps them and {failing.level:.4g} does not; no more runs were allowed"
