"""The latency tests: each scenario beside this file against a real Triton over the shipped models, and its baseline.

The exit status is 1 where a figure is surely worse than its baseline by more than the tolerance, or an answer is wrong.
What a server lost it has lost each time, and what the machine did meanwhile passes: a run that was not valid, or worse,
is made again, and the scenario fails after so many tries. A virtual machine has phases of seconds in which all is a
fourth slower or faster, so a run that drifts is compared as well, and less than that cannot be told.

A baseline is of one machine: on another, run with --keep, which tries each scenario so often and keeps the run whose
median latency lies in the middle of the valid ones.
"""

import argparse
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from attendant.errors import InputError
from benchmarks.harness.machine import ROOT
from benchmarks.harness.report import scratch_folder
from benchmarks.harness.sample_models import TEXT_ENCODER, write_checkpoint
from benchmarks.harness.servers import export_models, triton_over
from clients.load.analysis.comparison import compare, differences
from clients.load.analysis.slo import parse_objectives
from clients.load.analysis.summary import Summary, summarize
from clients.load.analysis.validity import Fault
from clients.load.record import LoadRun, RequestOutcome
from clients.load.report.comparison_terminal import print_comparison
from clients.load.report.deliver import deliver
from clients.load.run_file import read_run, write_run
from clients.load.run_with_progress import run_with_progress
from clients.load.scenario import Scenario
from clients.load.scenario_file import read_scenario, scenario_from
from serving.triton.server.endpoints import Endpoints

PLACE = Path(__file__).parent
CUSTOM_MODEL = "sensors"
"""In a file beside this one."""
BASELINES = PLACE / "baselines"
TOLERANCE, TRIES = 0.25, 4
"""What is left to one start of a server and another, and to a machine that others use too."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.latency", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenarios", nargs="+", help="by the names of their files; all if not given")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench", help="folder for the runs")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help="what may be lost, as a share")
    parser.add_argument("--tries", type=int, default=TRIES, help="how often a scenario is run until it passes")
    parser.add_argument("--keep", action="store_true", help="the runs become the baselines")
    parser.add_argument("--scratch", type=Path, help="folder for artefacts; kept if given")
    args = parser.parse_args()
    paths = {path.stem: path for path in sorted(PLACE.glob("*.toml"))}
    names = args.scenarios or list(paths)
    models = sorted({workload.model for name in names for workload in read_scenario(paths[name]).workloads})
    with scratch_folder(args) as scratch:
        sources = dict.fromkeys(models) | {CUSTOM_MODEL: str(PLACE / f"{CUSTOM_MODEL}.py")}
        if TEXT_ENCODER in models:
            sources[TEXT_ENCODER] = str(write_checkpoint(TEXT_ENCODER, scratch / "checkpoints"))
        artefacts = export_models([sources[model] or model for model in models], scratch / "artefacts")
        with triton_over(artefacts, scratch) as server:
            run = partial(run_here, endpoints=server.endpoints, repository=scratch / "model_repository")
            take = keep_baseline if args.keep else try_scenario
            return max([take(name, partial(run, paths[name]), args) for name in names])


def try_scenario(name: str, run: Callable[[], LoadRun], args: argparse.Namespace) -> int:
    """Run a scenario until it passes: 1 if it never does, or an answer is wrong."""
    for turn in range(1, args.tries + 1):
        found = run()
        write_run(found, args.out / f"{name}.json")
        if not judge(name, found, args.tolerance):
            return 0
        if has_wrong(found):
            break
        sys.stdout.write(f"{name}: try {turn} of {args.tries} did not pass\n")
    return 1


def keep_baseline(name: str, run: Callable[[], LoadRun], args: argparse.Namespace) -> int:
    """Run a scenario so often, and keep the middle one of the valid runs: 1 if there is none."""
    found = [summarize(run()) for _ in range(args.tries)]
    valid = sorted((one for one in found if one.validity.valid), key=median_latency)
    medians = ", ".join(
        f"{1e3 * median_latency(one):.2f}{'' if one.validity.valid else ' (not valid)'}" for one in found
    )
    sys.stdout.write(f"{name}: median latencies of {medians} ms\n")
    if not valid or any(has_wrong(one.run) for one in found):
        return 1
    write_run(valid[len(valid) // 2].run, BASELINES / f"{name}.json")
    return 0


def has_wrong(run: LoadRun) -> bool:
    return any(record.outcome in (RequestOutcome.WRONG, RequestOutcome.ERROR) for record in run.records)


def median_latency(summary: Summary) -> float:
    """From the scheduled times, in seconds."""
    return median(one.ended_s - one.scheduled_s for one in summary.run.records)


def run_here(path: Path, endpoints: Endpoints, repository: Path) -> LoadRun:
    """One scenario, against this server; the run says the scenario as it stands in its file."""
    scenario = read_scenario(path)
    here = replace(
        scenario,
        target=replace(scenario.target, address=endpoints.grpc, metrics=endpoints.metrics),
        in_process=replace(scenario.in_process, repository=str(repository)),
    )
    command = f"python -m benchmarks.latency --scenarios {path.stem}"
    return replace(run_with_progress(here, path.stem), scenario=read_as_written(path).plain(), command=command)


def ignore_drift(summary: Summary) -> Summary:
    """A run that may be compared though it drifts: figures of it are not to be quoted, but a loss is one all along."""
    reasons = tuple(one for one in summary.validity.reasons if one.fault not in (Fault.UNSTEADY, Fault.FEW))
    return replace(summary, validity=replace(summary.validity, reasons=reasons))


def read_as_written(path: Path) -> Scenario:
    """A scenario with its files named from the root, as they are on every machine."""
    return scenario_from(tomllib.loads(path.read_text(encoding="utf-8")), path.parent.relative_to(ROOT))


def judge(name: str, run: LoadRun, tolerance: float) -> int:
    """Report a run, and compare it with its baseline where there is one: 1 if it is worse or an answer was wrong."""
    deliver(run, parse_objectives(""), None, None, False)
    wrong = has_wrong(run)
    baseline = BASELINES / f"{name}.json"
    if not baseline.is_file():
        sys.stdout.write(f"{name}: no baseline; --keep writes one\n")
        return int(wrong)
    before, now = summarize(read_run(baseline)), ignore_drift(summarize(run))
    try:
        found = compare(before, now)
    except InputError as error:  # too few requests, or a run that is not valid
        sys.stdout.write(f"{name}: not compared: {error}\n")
        return 1
    print_comparison(found, tolerance, differences(before.run.scenario, now.run.scenario))
    return int(wrong or any(one.worse(tolerance) for one in found))


if __name__ == "__main__":
    sys.exit(main())
