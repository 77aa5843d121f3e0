"""A matrix of faults and traffics on the real server, judged by the history of the run alone.

Every scenario of benchmarks/chaos/scenarios is tried on each of its targets, with all traffics of
benchmarks/chaos/traffics.toml at once: each is a cell. The history, as JSON lines, is what the checker reads.
"""

import asyncio
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.chaos.history import History, HistoryWriter, read_events
from benchmarks.chaos.inputs import create_inputs
from benchmarks.chaos.report import page, summarise
from benchmarks.chaos.runner import Runner
from benchmarks.chaos.scenario import MODELS, Round, Traffic, expand, read_scenarios, read_traffics
from benchmarks.harness.report import Benchmark, scratch_folder
from benchmarks.harness.servers import export_models
from serving.triton.repository.layout import write_repository

BENCHMARK = Benchmark("chaos", "Faults and traffic on the real server", __doc__, "benchmarks.chaos")


def main() -> int:
    """1 if a cell does not hold."""
    parser = BENCHMARK.parser(scratch=True)
    parser.add_argument("--only", default="", help="words; of rounds whose names hold one of them")
    parser.add_argument("--in-tests", action="store_true", help="the rounds that `make test` runs")
    parser.add_argument("--list", action="store_true", help="print the cells, and run nothing")
    parser.add_argument("--history", type=Path, help="judge the history of an earlier run, and run nothing")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the server under test is ended, too
    traffics = read_traffics()
    rounds = expand(read_scenarios(), list(traffics), args.in_tests)
    rounds = [one for one in rounds if not args.only or any(word in one.label for word in args.only.split(","))]
    if args.list:
        sys.stdout.write("\n".join(cell for one in rounds for cell in one.cells) + "\n")
        return 0
    if args.history:
        sys.stdout.write("\n".join(page(summarise(History.of(read_events(args.history)), {}, 0.0))) + "\n")
        return 0
    with scratch_folder(args) as scratch:
        artefacts = export_models(MODELS, scratch / "artefacts")
        found = run_rounds(rounds, traffics, artefacts, scratch, args.seed)
    BENCHMARK.publish(args, page(found), found)
    return int(found["passed"] < found["cells"])


def run_rounds(
    rounds: Iterable[Round], traffics: Mapping[str, Traffic], artefacts: Mapping[str, Path], scratch: Path, seed: int
) -> dict[str, Any]:
    """Run rounds on artefacts of the shipped models; what was found, as JSON."""
    history, skipped, seconds = record_rounds(rounds, traffics, artefacts, scratch, seed)
    return summarise(history, skipped, seconds)


def record_rounds(
    rounds: Iterable[Round], traffics: Mapping[str, Traffic], artefacts: Mapping[str, Path], scratch: Path, seed: int
) -> tuple[History, dict[str, str], float]:
    """Run rounds; their history, what could not be tried, and how long it took."""
    repository = scratch / "model_repository"
    write_repository(artefacts.values(), repository)
    inputs = create_inputs(artefacts)
    began = time.monotonic()
    place = scratch.resolve() / f"run-{time.time_ns()}"
    writer = HistoryWriter(place / "history.jsonl")
    runner = Runner(repository, place, inputs, traffics, writer, seed)

    def say(number: int, one: Round) -> None:
        sent = sum(event["kind"] == "sent" for event in writer.events)
        took = f"[{time.monotonic() - began:4.0f} s, {sent:6} requests]"
        sys.stderr.write(f"{took} {number + 1:2} {one.label}: {one.scenario.summary}\n")
        sys.stderr.flush()

    try:
        asyncio.run(runner.run(rounds, say))
    finally:
        writer.close()
    return History.of(read_events(writer.path)), runner.skipped, time.monotonic() - began


if __name__ == "__main__":
    raise SystemExit(main())
