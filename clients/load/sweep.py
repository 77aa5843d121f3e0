"""One scenario at several loads: the levels, and the scenario at each."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from attendant.errors import ConfigError
from clients.load.analysis.search import SweepResult, find_highest, measure_all
from clients.load.analysis.slo import Objective
from clients.load.analysis.summary import Summary, summarize
from clients.load.arrivals import ClosedLoop, Constant, Gamma, Poisson
from clients.load.record import LoadRun
from clients.load.run_file import write_run
from clients.load.scenario import Scenario
from clients.load.schedule import require_schedule

SweptLoad = Literal["rate", "concurrency"]
UNITS = {"rate": "requests/s offered", "concurrency": "requests at once"}
Runs = Callable[[Scenario, str], LoadRun]


def scenario_at(scenario: Scenario, load: SweptLoad, level: float) -> Scenario:
    """The scenario at a rate, arriving as it says where it has a rate and as Poisson where not; or so many at once."""
    if load == "concurrency":
        return replace(scenario, arrivals=ClosedLoop(concurrency=int(level)))
    if isinstance(scenario.arrivals, Constant | Poisson | Gamma):
        return replace(scenario, arrivals=replace(scenario.arrivals, rate=level))
    return replace(scenario, arrivals=Poisson(rate=level))


def level_file(folder: Path, load: SweptLoad, level: float) -> Path:
    """Where the run at a level is written: a file of its own for each."""
    return folder / f"{load}-{str(float(level)).removesuffix('.0')}.json"


def sweep(
    scenario: Scenario,
    load: SweptLoad,
    levels: Sequence[float],
    run: Runs,
    objectives: Sequence[Objective] = (),
    runs: int = 6,
    folder: Path | None = None,
) -> SweepResult:
    """Run a scenario at each level; with objectives, up to the first that fails, and then bisect.

    Args:
        scenario: what is sent.
        load: what is varied.
        levels: of it.
        run: runs a scenario under a title.
        objectives: that are to be met.
        runs: most levels between the given ones.
        folder: where each run is written; nowhere if not given.

    Raises:
        OutputError: the folder cannot be written.
        ConfigError: a level cannot be; nothing was measured.
    """
    if len(set(levels)) < len(levels):
        raise ConfigError("levels that differ", ", ".join(f"{level:g}" for level in levels), "give each once")
    for level in levels:
        require_schedule(scenario_at(scenario, load, level))

    def measure(level: float) -> Summary:
        found = run(scenario_at(scenario, load, level), f"{scenario.name}, {level:.4g} {UNITS[load]}")
        if found.interrupted:  # too short to be compared with the other levels
            raise KeyboardInterrupt
        if folder is not None:
            write_run(found, level_file(folder, load, level))
        return summarize(found, objectives)

    if objectives:
        return find_highest(levels, measure, runs, whole=load == "concurrency")
    return measure_all(levels, measure)
