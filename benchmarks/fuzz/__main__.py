"""Inputs by the hundred thousand that are nearly right: to the gateway, to Triton's gRPC port, and to every parser.

An input must be answered or refused, with a record of what is wrong: no crash, no hang, no status from 500 on, and no
memory that grows. Those that are not are kept as files beside the results of the run, with the seed that drew them.
"""

import asyncio
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.chaos.history import HistoryWriter
from benchmarks.chaos.scenario import MODELS, Start
from benchmarks.chaos.served import Served
from benchmarks.fuzz.gateway import GatewayFuzzer
from benchmarks.fuzz.outcome import Budget, Outcome
from benchmarks.fuzz.parsers import create_parsers, fuzz_parser
from benchmarks.fuzz.triton import TritonFuzzer, right_messages
from benchmarks.harness.report import Benchmark, scratch_folder, table
from benchmarks.harness.servers import export_models
from serving.triton.repository.layout import write_repository

BENCHMARK = Benchmark("fuzz", "Inputs that are nearly right", __doc__, "benchmarks.fuzz")
SHARES = {
    "gateway": 0.35,
    "triton": 0.2,
    "manifest": 0.1,
    "config": 0.1,
    "safetensors": 0.1,
    "tokenizer": 0.05,
    "image": 0.1,
}
"""Target → its share of all inputs."""
MOST_GROWTH_MB = 100.0
PROGRESS_S = 5.0


def main() -> int:
    """1 if an input met what none may meet."""
    parser = BENCHMARK.parser(scratch=True)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=1200.0, help="for all targets together")
    parser.add_argument("--only", default=",".join(SHARES), help="targets, with commas between")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="folder for failing inputs")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the server under test is ended, too
    names = args.only.split(",")
    with scratch_folder(args) as scratch:
        artefacts = export_models(MODELS, scratch / "artefacts", explain=True)
        outcomes = list(run_targets(names, artefacts, scratch, args))
    found = {"seed": args.seed, "targets": [one.to_json() for one in outcomes], "wrong": mistakes(outcomes)}
    BENCHMARK.publish(args, page(found), found)
    return int(bool(found["wrong"]))


def run_targets(names: Sequence[str], artefacts: dict[str, Path], scratch: Path, args: Any) -> Iterator[Outcome]:
    """Fuzz each target with its share of the inputs and of the time."""
    whole, until, left = sum(SHARES[name] for name in names), time.monotonic() + args.seconds, set(names)

    def budget(name: str) -> Budget:
        """Its share of the inputs, and of the time that those before it have left."""
        inputs = math.ceil(args.inputs * SHARES[name] / whole)
        seconds = (until - time.monotonic()) * SHARES[name] / sum(SHARES[one] for one in left)
        left.discard(name)
        sys.stderr.write(f"{name}: {inputs} inputs, {seconds:.0f} s at most\n")
        return Budget(inputs, seconds)

    folder = scratch / "fuzzed"
    folder.mkdir(exist_ok=True)
    for one in create_parsers(artefacts["dates-transformer"]):
        if one.name in names:
            place = folder / one.name
            place.mkdir(exist_ok=True)
            yield fuzz_parser(one, budget(one.name), place, args.keep, args.seed)
    if served := [name for name in ("triton", "gateway") if name in names]:
        yield from fuzz_server(served, artefacts, scratch, args, budget)


def fuzz_server(
    names: Sequence[str], artefacts: dict[str, Path], scratch: Path, args: Any, budget: Callable[[str], Budget]
) -> Iterator[Outcome]:
    """Fuzz the two ports of a server; each of its processes that dies is a failure."""
    write_repository(artefacts.values(), scratch / "model_repository")
    place = scratch.resolve() / f"fuzz-{time.time_ns()}"
    history = HistoryWriter(place / "history.jsonl")
    server = Served(scratch / "model_repository", place / "server", history, Start(), place / "clock")
    assert asyncio.run(server.start()), server.output.read_text()
    try:
        for name in names:
            outcome = Outcome(name, args.keep, args.seed)
            fuzzer = (
                GatewayFuzzer(server.gateway, outcome)
                if name == "gateway"
                else TritonFuzzer(server.grpc, outcome, right_messages(artefacts))
            )
            began = sampled = time.monotonic()

            def after_batch(outcome: Outcome = outcome, began: float = began) -> None:
                nonlocal sampled
                if time.monotonic() - sampled < PROGRESS_S:
                    return
                sampled = time.monotonic()
                outcome.rss_mb.append(sum(one.resident_mb for one in server.look()))
                failed = sum(outcome.failures.values())
                sys.stderr.write(f"  [{sampled - began:4.0f} s] {outcome.count} inputs, {failed} failures\n")

            fuzzer.run(budget(name), args.seed, after_batch)
            server.look()
            deaths = [one for one in history.events if one["kind"] == "process" and one["what"] == "died"]
            for death in deaths:
                outcome.failures[f"{death['role']} died"] += 1
            history.events.clear()
            yield outcome
    finally:
        asyncio.run(server.stop())
        history.close()


def mistakes(outcomes: list[Outcome]) -> list[str]:
    """What no input may meet, in words."""
    wrong = [f"{one.target}: {count} × {name}" for one in outcomes for name, count in one.failures.items()]
    grown = [one for one in outcomes if one.growth_mb > MOST_GROWTH_MB]
    return wrong + [f"{one.target}: memory grew by {one.growth_mb:.0f} MB" for one in grown]


def page(found: dict[str, Any]) -> Iterator[str]:
    targets = found["targets"]
    total = sum(one["inputs"] for one in targets)
    yield f"**{total} inputs; " + (
        "nothing is wrong.**\n" if not found["wrong"] else f"{len(found['wrong'])} kinds of failure.**\n"
    )
    heads = ["target", "inputs", "a second", "slowest, s", "growth, MB", "failures"]
    rows = []
    for one in targets:
        rate = one["inputs"] / max(one["seconds"], 1e-9)
        failures = sum(one["failures"].values())
        rows.append([one["target"], one["inputs"], f"{rate:.0f}", one["slowest_s"], one["growth_mb"], failures])
    yield table(heads, rows) + "\n"
    for one in targets:
        answers = ", ".join(f"{count} {name}" for name, count in one["answers"].items())
        yield f"- {one['target']}: {answers}"
        for name, count in one["failures"].items():
            yield f"    - {count} × {name}: {one['examples'].get(name, '')!r}"


if __name__ == "__main__":
    raise SystemExit(main())
