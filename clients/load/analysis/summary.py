"""A run, summed up: its steady window, every figure, what was asked of them, and whether they may be quoted."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clients.load.analysis.metrics import Metric, metrics
from clients.load.analysis.slo import Objective
from clients.load.analysis.steady import SteadyWindow, steady_window
from clients.load.analysis.validity import Validity, ValidityBounds, check_validity
from clients.load.record import LoadRun


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveResult:
    """An objective and what was found.

    Attributes:
        objective: what was asked.
        found_s: the statistic, in seconds; None if no request has such a figure.
        intervals: its 95 % interval.
    """

    objective: Objective
    found_s: float | None
    intervals: tuple[float, float] | None

    @property
    def met(self) -> bool:
        """Whether the limit was kept; a figure that does not exist keeps none."""
        return self.found_s is not None and self.found_s < self.objective.limit_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """All that a report says.

    Attributes:
        run: what it is of.
        window: the part of the run that counts.
        metrics: key → figure, of all requests.
        by_workload: the same of each workload, where there are several.
        objectives: and whether they were met.
        validity: whether the run is valid.
    """

    run: LoadRun
    window: SteadyWindow
    metrics: dict[str, Metric]
    by_workload: dict[str, dict[str, Metric]]
    objectives: tuple[ObjectiveResult, ...]
    validity: Validity

    @property
    def met(self) -> bool:
        """Whether every objective was met."""
        return all(one.met for one in self.objectives)


def summarize(run: LoadRun, objectives: Sequence[Objective] = (), bounds: ValidityBounds | None = None) -> Summary:
    """Sum up a run.

    Args:
        run: what was noted.
        objectives: for goodput and for whether they were met.
        bounds: of validity.
    """
    warmup = run.scenario.get("warmup_s", 0.0)
    window = steady_window(run.records, float(warmup) if isinstance(warmup, int | float) else 0.0)
    found = metrics(run, window, objectives)
    by_workload = {}
    names = sorted({record.workload for record in run.records})
    for name in names if len(names) > 1 else ():
        # The server's counters and the times without it are of all workloads together.
        records = tuple(record for record in run.records if record.workload == name)
        by_workload[name] = metrics(replace(run, records=records, server=None, in_process_s=()), window, objectives)
    results = []
    for one in objectives:
        metric = found.get(one.metric)
        value_s = None if metric is None else metric.value(one.statistic)
        sure = None if metric is None else metric.intervals.get(one.statistic)
        results.append(ObjectiveResult(objective=one, found_s=value_s, intervals=sure))
    return Summary(
        run=run,
        window=window,
        metrics=found,
        by_workload=by_workload,
        objectives=tuple(results),
        validity=check_validity(run, window, found, bounds),
    )
