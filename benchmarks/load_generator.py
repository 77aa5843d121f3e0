"""How much load one process of the generator drives, beside the server that it drives.

Closed loops against a real Triton over shipped models, on the same machine: small images by unary calls, and long
answers token by token. Every answer is checked, so each figure is of right answers.
"""

import asyncio
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from attendant.sampling_params import SamplingParams
from benchmarks.harness.machine import scheduling
from benchmarks.harness.report import Benchmark, scratch_folder, table
from benchmarks.harness.servers import export_models, triton_over
from clients.load.arrivals import ClosedLoop
from clients.load.record import RequestOutcome
from clients.load.run import run_load
from clients.load.scenario import Expect, Inputs, Scenario, Target, Transport, Workload
from commands.quickstart.prompts import PROMPTS
from serving.engine.settings import EngineSettings

WARM_UP_S = 1.0
Figures = dict[str, Any]
BENCHMARK = Benchmark("load-generator", "What the load generator drives", __doc__)
IMAGES = Workload(name="images", model="digits-vit", expect=Expect(kind="example"))
TEXTS = Workload(
    name="texts",
    model="stdlib-lm",
    inputs=Inputs(kind="texts", texts=tuple(PROMPTS)),
    decoding=SamplingParams(max_tokens=64, ignore_eos=True),
    expect=Expect(kind="same"),
)


class Case(NamedTuple):
    workload: Workload
    transport: Transport
    concurrency: int

    @property
    def name(self) -> str:
        return f"{self.workload.model}, {self.transport}, {self.concurrency} at once"


CASES = [
    *(Case(IMAGES, "grpc", concurrency) for concurrency in (1, 8, 32, 64)),
    Case(IMAGES, "http", 32),
    *(Case(TEXTS, "grpc", concurrency) for concurrency in (16, 32, 64)),
    Case(TEXTS, "http", 32),
]


def main() -> None:
    parser = BENCHMARK.parser(scratch=True, rounds=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each run, behind a second of warm-up")
    args = parser.parse_args()
    found: dict[str, list[Figures]] = {case.name: [] for case in CASES}
    with scratch_folder(args) as scratch:
        artefacts = export_models(["digits-vit", "stdlib-lm"], scratch / "artefacts")
        with triton_over(artefacts, scratch, EngineSettings(max_num_seqs=32)) as server:
            for _ in range(args.rounds):
                for case in CASES:
                    address = server.endpoints.grpc if case.transport == "grpc" else server.endpoints.http
                    target = Target(transport=case.transport, address=address)
                    found[case.name].append(drive(case.workload, target, case.concurrency, args.seconds))
    BENCHMARK.publish(args, report(found), {"cases": found})


def drive(workload: Workload, target: Target, concurrency: int, seconds: float) -> Figures:
    """Keep so many requests under way for some seconds: rates by when things ended, and how the generator fared."""
    scenario = Scenario(
        workloads=(workload,),
        target=target,
        arrivals=ClosedLoop(concurrency=concurrency),
        warmup_s=WARM_UP_S,
        duration_s=seconds,
    )
    load_before, until = os.getloadavg()[0], WARM_UP_S + seconds
    run = asyncio.run(run_load(scenario))
    ended = [record for record in run.records if WARM_UP_S <= record.ended_s < until]
    responses = [
        (at_s, count) for record in run.records for at_s, count in zip(record.responses_s, record.tokens, strict=True)
    ]
    latencies = [record.ended_s - record.scheduled_s for record in ended] or [float("nan")]
    return {
        "requests": sum(record.outcome is RequestOutcome.OK for record in ended) / seconds,
        "tokens": sum(count for at_s, count in responses if WARM_UP_S <= at_s < until) / seconds,
        "not right": sum(record.outcome is not RequestOutcome.OK for record in run.records),
        "p50": float(np.median(latencies)),
        "p99": float(np.quantile(latencies, 0.99)),
        "loop lag p99": float(np.quantile(run.generator.loop_lags_s, 0.99)),
        "generator": run.generator.cpu_share,
        "machine": run.generator.machine_share,
        "load before": load_before,
    }


def report(found: dict[str, list[Figures]]) -> Iterator[str]:
    yield "One process of the generator and one Triton on the same machine; of each case the best round, for what"
    yield f"others did meanwhile only takes away.\n\n{scheduling()}\n"
    rows = []
    for name, rounds in found.items():
        best = max(rounds, key=lambda one: float(one["requests"]))
        rates = [f"{best['requests']:,.0f}", f"{best['tokens']:,.0f}"]
        times = [f"{1e3 * best[figure]:.2f}" for figure in ("p50", "p99")]
        shares = [f"{best['generator']:.0%}", f"{best['machine']:.0%}", f"{best['load before']:.1f}"]
        every = ", ".join(f"{one['requests']:,.0f}" for one in rounds)
        wrong = sum(one["not right"] for one in rounds)
        rows.append([name, *rates, every, *times, wrong, f"{1e3 * best['loop lag p99']:.2f}", *shares])
    heads = ["case", "requests/s", "tokens/s", "requests/s of each round", "p50, ms", "p99, ms", "not right"]
    monitored = ["event loop late p99, ms", "generator, of a core", "machine used", "load average before"]
    yield table([*heads, *monitored], rows)


if __name__ == "__main__":
    main()
