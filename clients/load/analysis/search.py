"""The highest load that keeps its objectives: first the given levels, then bisection between the last two.

A level fails if it misses an objective, or if its run is invalid by the server's doing: errors, stalls, or latencies
that never settle, which is what too much load looks like. A level of too few requests says nothing, and the next one is
measured. Where the generator itself was the limit, the level is measured once more, for it may have been disturbed;
then the search ends: nothing above says anything of the server.
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

    @property
    def fails(self) -> bool:
        """Whether the server could not keep it; a level can neither pass nor fail."""
        return not self.passes and not self.silent_because

    @property
    def silent_because(self) -> str:
        """Why it says nothing of the server, and what to do; empty if it says something."""
        reasons = self.summary.validity.reasons
        if self.generator_was_the_limit:
            one = next(one for one in reasons if one.fault in _GENERATORS)
            return one.message if one.message.startswith(one.fault.value) else f"{one.fault.value}: {one.message}"
        if any(reason.fault is Fault.ANSWERS for reason in reasons):
            return ""
        return next((one.message for one in reasons if one.fault is Fault.FEW), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """Levels in ascending order, and what they say.

    Attributes:
        steps: all that were measured.
        ended: why no more were.
        interrupted: whether it was cut short by its user.
    """

    steps: tuple[SweepStep, ...]
    ended: str
    interrupted: bool = False

    @property
    def highest(self) -> SweepStep | None:
        """The highest passing level below every failing one; None if there is none."""
        passing = None
        for step in self.steps:
            if step.fails:
                break
            passing = step if step.passes else passing
        return passing


def measure_all(levels: Sequence[float], measure: Measure) -> SweepResult:
    """Measure every level, in ascending order.

    Raises:
        KeyboardInterrupt: the first was cut short.
    """

    def search(steps: list[SweepStep]) -> str:
        steps += (SweepStep(level=level, summary=measure(level)) for level in sorted(levels))
        return "every level was measured"

    return _collect(search)


def find_highest(levels: Sequence[float], measure: Measure, runs: int, whole: bool = False) -> SweepResult:
    """Measure levels in ascending order until one fails, then bisect.

    Args:
        levels: at least one.
        measure: runs a level; a KeyboardInterrupt ends the search.
        runs: at most so many between the given levels.
        whole: whether levels are whole numbers, of requests at once.

    Raises:
        KeyboardInterrupt: the first was cut short.
    """

    def search(steps: list[SweepStep]) -> str:
        for level in sorted(levels):
            steps.append(_measure_step(level, measure))
            if steps[-1].fails or steps[-1].generator_was_the_limit:
                break
        passing = [step for step in steps if step.passes]
        if steps[-1].passes:
            return "the highest level given keeps them: give higher ones"
        if steps[-1].silent_because:
            return _tell_silence(steps[-1], passing)
        if passing:
            return _bisect(steps, passing[-1], measure, runs, whole)
        if len(steps) > 1:
            return f"{steps[-1].level:g} does not; {_tell_silence(steps[0], passing)}"
        return "the lowest level given fails already: give lower ones"

    return _collect(search)


def _collect(search: Callable[[list[SweepStep]], str]) -> SweepResult:
    steps: list[SweepStep] = []
    try:
        ended, interrupted = search(steps), False
    except KeyboardInterrupt:
        if not steps:
            raise
        ended, interrupted = "cut short by Ctrl-C", True
    ordered = tuple(sorted(steps, key=lambda step: step.level))
    return SweepResult(steps=ordered, ended=ended, interrupted=interrupted)


def _tell_silence(step: SweepStep, passing: Sequence[SweepStep]) -> str:
    known = f"nothing above {passing[-1].level:g} is known" if passing else "nothing is known of the server"
    return f"{known}, for at {step.level:g} {step.silent_because}"


def _measure_step(level: float, measure: Measure) -> SweepStep:
    step = SweepStep(level=level, summary=measure(level))
    return SweepStep(level=level, summary=measure(level)) if step.generator_was_the_limit else step


def _bisect(steps: list[SweepStep], passing: SweepStep, measure: Measure, runs: int, whole: bool) -> str:
    failing = steps[-1]
    for _ in range(runs):
        level = round((passing.level * failing.level) ** 0.5) if whole else (passing.level * failing.level) ** 0.5
        if failing.level / passing.level <= CLOSE or level in (passing.level, failing.level):
            return f"{passing.level:.4g} keeps them and {failing.level:.4g} does not"
        steps.append(_measure_step(level, measure))
        if steps[-1].silent_because:
            return _tell_silence(steps[-1], [passing])
        passing, failing = (steps[-1], failing) if steps[-1].passes else (passing, steps[-1])
    return f"{passing.level:.4g} keeps them and {failing.level:.4g} does not; no more runs were allowed"
