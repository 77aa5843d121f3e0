"""The search: every candidate is simulated, the best few and the defaults are measured on the real server.

The simulation says how candidates compare and knows little of what a server adds; so each prediction is scaled by what
the defaults do, measured / simulated, and a candidate that then differs by more than a fifth is said to.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest, nsmallest
from math import isfinite

from attendant.errors import ConfigError
from attendant.progress import progress
from serving.capacity.profile import ReplicaProfile
from serving.capacity.tuning.measurement import Measured
from serving.capacity.tuning.prediction import TuningTask, predict
from serving.capacity.tuning.search_space import DEFAULTS, Candidate

APART = 0.2
"""A share by which prediction and measurement may differ."""
ALIKE = 0.05
"""Runs of some seconds do not tell figures apart that are closer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A candidate, and what is known of it.

    Attributes:
        candidate: the way to serve.
        simulated: the goal's figure.
        measured: the same on the real server; None where it was only simulated.
    """

    candidate: Candidate
    simulated: float
    measured: Measured | None = None

    @property
    def value(self) -> float | None:
        """What was measured and may be quoted."""
        return None if self.measured is None or self.measured.problem else self.measured.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What came of a search.

    Attributes:
        task: what was looked for.
        trials: those that are measured, in that order, then the others, the best simulated first.
        interrupted: whether Ctrl-C ended it.
    """

    task: TuningTask
    trials: tuple[Trial, ...]
    interrupted: bool = False

    @property
    def default(self) -> Trial:
        """The defaults."""
        return next(trial for trial in self.trials if trial.candidate == DEFAULTS)

    @property
    def best(self) -> Trial | None:
        """The one to use: the defaults unless another is better by more than runs differ; None if none was valid."""
        best = self.default if self.default.value is not None else None
        margin = 1 + ALIKE if self.task.goal == "throughput" else 1 - ALIKE
        for trial in self.trials:
            if trial.value is None:
                continue
            bound = None if best is None or best.value is None else best.value
            if bound is not None and best is not None and best.candidate == DEFAULTS:
                bound *= margin
            if bound is None or self.task.is_better(trial.value, bound):
                best = trial
        return best

    def scaled(self, trial: Trial) -> float | None:
        """What the simulation expects of a candidate, given what the defaults were measured to do."""
        default = self.default
        if default.value is None or not isfinite(default.simulated) or not default.simulated:
            return None
        return trial.simulated * default.value / default.simulated

    def error(self, trial: Trial) -> float | None:
        """By which share the measurement differs from that."""
        expected = self.scaled(trial)
        if trial.value is None or not expected or not isfinite(expected) or trial.candidate == DEFAULTS:
            return None
        return trial.value / expected - 1


def tune(
    task: TuningTask,
    candidates: Sequence[Candidate],
    profiles: Callable[[int], ReplicaProfile],
    measure: Callable[[Candidate, float, str], Measured],
    finalists: int = 3,
) -> Tuning:
    """Search.

    Args:
        task: what is looked for.
        candidates: that are simulated; the defaults are the first.
        profiles: threads of a run → the profile of a replica.
        measure: serves a candidate, of which a figure is expected, under a title.
        finalists: so many are measured, beside the defaults.

    Raises:
        ConfigError: no candidate can keep the objectives, by the simulation.
        KeyboardInterrupt: before anything was measured.
    """
    by_threads: dict[int, ReplicaProfile] = {}
    with progress("profiles", len({one.threads for one in candidates})) as advance:
        for threads in sorted({one.threads for one in candidates}):
            by_threads[threads] = profiles(threads)
            advance(f"{threads} thread(s)")
    pick = nlargest if task.goal == "throughput" else nsmallest
    simulated: dict[Candidate, float] = {}
    with progress("simulations", len(candidates)) as advance:
        for candidate in candidates:
            known = pick(finalists, simulated.values())
            least = known[-1] if task.goal == "throughput" and len(known) == finalists else 0.0
            simulated[candidate] = predict(task, candidate, by_threads[candidate.threads], least)
            advance(candidate.flags)
    possible = [one for one in candidates if isfinite(simulated[one]) and simulated[one] > 0]
    if not possible:
        remedy = "allow more, ask for less, or tune a faster machine"
        raise ConfigError("objectives that a candidate keeps, simulated", "none does", remedy)
    order = sorted(possible, key=simulated.__getitem__, reverse=task.goal == "throughput")
    chosen = [DEFAULTS, *(one for one in order if one != DEFAULTS)][: finalists + 1]
    trials = [Trial(candidate=one, simulated=simulated[one]) for one in chosen]
    others = tuple(Trial(candidate=one, simulated=simulated[one]) for one in order if one not in chosen)
    scale, interrupted = 1.0, False
    for place, trial in enumerate(trials):
        if trial.candidate not in possible:  # the defaults: the report says so
            continue
        title = f"{place + 1} of {len(trials)}: {trial.candidate.flags}"
        try:
            measured = measure(trial.candidate, scale * trial.simulated, title)
        except KeyboardInterrupt:
            if not any(one.measured for one in trials):
                raise
            interrupted = True
            break
        trials[place] = replace(trial, measured=measured)
        found = Tuning(task=task, trials=(*trials, *others))
        if not place and (expected := found.scaled(trials[0])):
            scale = expected / trial.simulated
        if measured.interrupted:
            interrupted = True
            break
    return Tuning(task=task, trials=(*trials, *others), interrupted=interrupted)
