"""How much load one process of the generator drives, beside the server that it drives.

    python benchmarks/load_generator.py [--seconds S] [--rounds N] [--out DIR] [--scratch DIR]

Closed loops against a real Triton over shipped models, on the same machine: small images by unary calls, and long
answers token by token. Every answer is checked, so each figure is of right answers.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from attendant.sampling_params import SamplingParams  # noqa: E402
from benchmarks.generation.quiet import scheduling  # noqa: E402
from benchmarks.generation.served import exported, server_over  # noqa: E402
from benchmarks.generation.written import preamble, table, write_result  # noqa: E402
from clients.load.arrivals import ClosedLoop  # noqa: E402
from clients.load.record import LoadRun, Outcome  # noqa: E402
from clients.load.run import run_load  # noqa: E402
from clients.load.scenario import Expect, Inputs, Scenario, Target, Transport, Workload  # noqa: E402
from commands.quickstart.prompts import PROMPTS  # noqa: E402
from serving.engine.settings import EngineSettings  # noqa: E402
from serving.triton.server.endpoints import Endpoints  # noqa: E402

IMAGES = Workload(name="images", model="digits-vit", expect=Expect(kind="example"))
TEXTS = Workload(
    name="texts",
    model="stdlib-lm",
    inputs=Inputs(kind="texts", texts=tuple(PROMPTS)),
    decoding=SamplingParams(max_tokens=64, ignore_eos=True),
    expect=Expect(kind="same"),
)
WARM_UP_S = 1.0
Figures = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is asked, how, and how many at once."""

    workload: Workload
    transport: Transport
    concurrency: int

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.workload.model}, {self.transport}, {self.concurrency} at once"


CASES = [
    *(Case(workload=IMAGES, transport="grpc", concurrency=number) for number in (1, 8, 32, 64)),
    Case(workload=IMAGES, transport="http", concurrency=32),
    *(Case(workload=TEXTS, transport="grpc", concurrency=number) for number in (16, 32, 64)),
    Case(workload=TEXTS, transport="http", concurrency=32),
]


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=8.0, help="of each run, behind a second of warm-up")
    parser.add_argument("--rounds", type=int, default=3, help="of all cases, in turns")
    parser.add_argument("--out", type=Path, help="folder for <date>-load-generator.md and .json; none if absent")
    parser.add_argument("--scratch", type=Path, help="folder for artefacts; kept if given")
    asked = parser.parse_args()
    found: dict[str, list[Figures]] = {case.name: [] for case in CASES}
    with tempfile.TemporaryDirectory() as temporary:
        scratch = asked.scratch or Path(temporary)
        artefacts = exported(["digits-vit", "stdlib-lm"], scratch / "artefacts")
        with server_over(artefacts, scratch, EngineSettings(max_num_seqs=32)) as server:
            for _ in range(asked.rounds):
                for case in CASES:
                    found[case.name].append(driven(case, server.endpoints, asked.seconds))
    text = report(found)
    if asked.out is not None:
        write_result(asked.out, "load-generator", text, found)
    sys.stdout.write(text + "\n")


def driven(case: Case, endpoints: Endpoints, seconds: float) -> Figures:
    """One run's figures."""
    target = Target(transport=case.transport, address=endpoints.grpc if case.transport == "grpc" else endpoints.http)
    scenario = Scenario(
        workloads=(case.workload,),
        target=target,
        arrivals=ClosedLoop(concurrency=case.concurrency),
        warmup_s=WARM_UP_S,
        duration_s=seconds,
    )
    others = os.getloadavg()[0]
    return figures(asyncio.run(run_load(scenario)), seconds) | {"load before": others}


def figures(run: LoadRun, seconds: float) -> Figures:
    """Rates behind the warm-up, by when things ended, and how the generator fared."""
    until = WARM_UP_S + seconds
    ended = [record for record in run.records if WARM_UP_S <= record.ended_s < until]
    came = [
        (at_s, count) for record in run.records for at_s, count in zip(record.responses_s, record.tokens, strict=True)
    ]
    latencies = [record.ended_s - record.intended_s for record in ended]
    return {
        "requests": sum(record.outcome is Outcome.OK for record in ended) / seconds,
        "tokens": sum(count for at_s, count in came if WARM_UP_S <= at_s < until) / seconds,
        "not right": sum(record.outcome is not Outcome.OK for record in run.records),
        "p50": float(np.median(latencies)),
        "p99": float(np.quantile(latencies, 0.99)),
        "loop lag p99": float(np.quantile(run.watch.loop_lags_s, 0.99)),
        "generator": run.watch.cpu_share,
        "machine": run.watch.machine_share,
    }


def report(found: dict[str, list[Figures]]) -> str:
    """Markdown: of each case the round with the highest rate, and the rates of all rounds."""
    rows = [[name, *_cells(rounds)] for name, rounds in found.items()]
    heads = ["case", "requests/s", "tokens/s", "requests/s of each round", "p50, ms", "p99, ms", "not right"]
    watched = ["event loop late p99, ms", "generator, of a core", "machine used", "load average before"]
    return "\n".join(
        [
            *preamble("What the load generator drives", "benchmarks/load_generator.py", sys.argv[1:]),
            "One process of the generator and one Triton on the same machine; of each case the best round, for what "
            "others did meanwhile only takes away.\n",
            f"{scheduling()}\n",
            table([*heads, *watched], rows),
        ]
    )


def _cells(rounds: list[Figures]) -> list[str]:
    best = max(rounds, key=lambda one: float(one["requests"]))
    all_rates = ", ".join(f"{one['requests']:,.0f}" for one in rounds)
    wrong = sum(one["not right"] for one in rounds)
    milliseconds = [f"{1e3 * best[name]:.2f}" for name in ("p50", "p99")]
    shares = [f"{best['generator']:.0%}", f"{best['machine']:.0%}", f"{best['load before']:.1f}"]
    rates = [f"{best['requests']:,.0f}", f"{best['tokens']:,.0f}", all_rates]
    return [*rates, *milliseconds, str(wrong), f"{1e3 * best['loop lag p99']:.2f}", *shares]


if __name__ == "__main__":
    main()
