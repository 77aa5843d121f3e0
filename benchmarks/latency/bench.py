"""The latency tests: each scenario beside this file against a real Triton over the shipped models, and its baseline.

    python benchmarks/latency/bench.py [--scenarios NAME ...] [--out DIR] [--tolerance T] [--keep] [--scratch DIR]

The exit status is 1 where a figure is surely worse than its baseline by more than the tolerance, or an answer is wrong.
A baseline is of one machine: on another, run once with --keep, which writes new ones, and compare with these.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import tomllib
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.generation.served import exported, server_over  # noqa: E402
from benchmarks.latency.text_encoder import NAME as TEXT_ENCODER  # noqa: E402
from benchmarks.latency.text_encoder import text_encoder  # noqa: E402
from clients.load.analysis.comparison import compare, differences  # noqa: E402
from clients.load.analysis.slo import objectives  # noqa: E402
from clients.load.analysis.summary import summarise  # noqa: E402
from clients.load.record import LoadRun, Outcome  # noqa: E402
from clients.load.report.comparison_terminal import print_comparison  # noqa: E402
from clients.load.report.deliver import deliver  # noqa: E402
from clients.load.run_file import read_run, write_run  # noqa: E402
from clients.load.run_shown import run_shown  # noqa: E402
from clients.load.scenario import Scenario  # noqa: E402
from clients.load.scenario_file import read_scenario, scenario_from  # noqa: E402
from models.errors import InputError  # noqa: E402
from serving.generation.settings import EngineSettings  # noqa: E402
from serving.triton_server.endpoints import Endpoints  # noqa: E402

PLACE = Path(__file__).parent
BASELINES = PLACE / "baselines"
TOLERANCE = 0.25
"""What is left to one start of a server and another, and to a machine that others use too."""


def main() -> int:
    """Run, report, compare; the exit status."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--scenarios", nargs="+", help="by the names of their files; all if not given")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench", help="folder for the runs")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help="what may be lost, as a share")
    parser.add_argument("--keep", action="store_true", help="the runs become the baselines")
    parser.add_argument("--scratch", type=Path, help="folder for artefacts; kept if given")
    asked = parser.parse_args()
    paths = {path.stem: path for path in sorted(PLACE.glob("*.toml"))}
    names = asked.scenarios or list(paths)
    models = sorted({workload.model for name in names for workload in read_scenario(paths[name]).workloads})
    with tempfile.TemporaryDirectory() as temporary:
        scratch = asked.scratch or Path(temporary)
        sources = [str(text_encoder(scratch / "checkpoints")) if model == TEXT_ENCODER else model for model in models]
        artefacts = exported(sources, scratch / "artefacts")
        with server_over(artefacts, scratch, EngineSettings()) as server:
            repository = scratch / "model_repository"
            runs = {name: ran(paths[name], server.endpoints, repository) for name in names}
    place = BASELINES if asked.keep else asked.out
    for name, run in runs.items():
        write_run(run, place / f"{name}.json")
    return max(judged(name, run, asked.tolerance) for name, run in runs.items())


def ran(path: Path, endpoints: Endpoints, repository: Path) -> LoadRun:
    """One scenario, against this server; the run says the scenario as it stands in its file."""
    told = read_scenario(path)
    here = replace(
        told,
        target=replace(told.target, address=endpoints.grpc, metrics=endpoints.metrics),
        in_process=replace(told.in_process, repository=str(repository)),
    )
    command = f"python benchmarks/latency/bench.py --scenarios {path.stem}"
    return replace(run_shown(here, path.stem), scenario=as_written(path).plain(), command=command)


def as_written(path: Path) -> Scenario:
    """A scenario with its files named from the root, as they are on every machine."""
    return scenario_from(tomllib.loads(path.read_text(encoding="utf-8")), path.parent.relative_to(ROOT))


def judged(name: str, run: LoadRun, tolerance: float) -> int:
    """Report a run, and compare it with its baseline where there is one: 1 if it is worse or an answer was wrong."""
    deliver(run, objectives(""), None, None, False)
    wrong = any(record.outcome in (Outcome.WRONG, Outcome.ERROR) for record in run.records)
    baseline = BASELINES / f"{name}.json"
    if not baseline.is_file():
        sys.stdout.write(f"{name}: no baseline; --keep writes one\n")
        return int(wrong)
    before, now = summarise(read_run(baseline)), summarise(run)
    try:
        found = compare(before, now)
    except InputError as error:  # too few requests, or a run that is not valid
        sys.stdout.write(f"{name}: not compared: {error}\n")
        return 1
    print_comparison(found, tolerance, differences(before.run.scenario, now.run.scenario))
    return int(wrong or any(one.worse(tolerance) for one in found))


if __name__ == "__main__":
    sys.exit(main())
