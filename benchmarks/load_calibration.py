"""The load generator against a server of known service times: what it measures, and what queues are known to do.

Many queues at once, each of which serves one request at a time; arrivals are Poisson, services all alike (M/D/1) or
exponential (M/M/1). Two comparisons:

    drawn    the very arrivals and services of the run, by Lindley's recursion: what is left is what the protocol and
             the generator add, on both sides
    theory   the closed forms of clients/load/calibration/theory.py: what is left is that, and how far so many draws
             lie from what they are drawn from
"""

import argparse
import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.harness.machine import scheduling
from benchmarks.harness.report import Benchmark, table
from clients.load.arrivals import Poisson
from clients.load.calibration import theory
from clients.load.calibration.known_model import KnownModel, known_server, services_s
from clients.load.record import LoadRun
from clients.load.run import run_load
from clients.load.scenario import Inputs, Scenario, Target, Workload

BENCHMARK = Benchmark("load-calibration", "The load generator where the times are known", __doc__)
WITHIN = 0.03
SHARE = 0.95
WARM_UP_S = 5.0
Formula = Callable[[float, float], float]
KINDS: dict[str, tuple[str, Formula, Formula]] = {
    "M/D/1": ("deterministic", theory.mean_md1, lambda rate, mean: theory.quantile_md1(rate, mean, SHARE)),
    "M/M/1": ("exponential", theory.mean_mm1, lambda rate, mean: theory.quantile_mm1(rate, mean, SHARE)),
}


def main() -> None:
    parser = BENCHMARK.parser()
    parser.add_argument("--seconds", type=float, default=250.0, help="of each kind of queue")
    parser.add_argument("--queues", type=int, default=24, help="at once")
    parser.add_argument("--service-ms", type=float, default=40.0, help="the mean of a service")
    parser.add_argument("--used", type=float, default=0.5, help="the share of its time that a queue serves")
    args = parser.parse_args()
    found = {name: measure(kind, args) for name, (kind, _, _) in KINDS.items()}
    BENCHMARK.publish(args, report(found, args), {"queues": found})


def measure(kind: Any, args: argparse.Namespace) -> dict[str, float]:
    """One run; seconds, and how the generator fared."""
    mean_s = args.service_ms / 1e3
    models = {f"queue-{one}": KnownModel(service=kind, mean_s=mean_s, seed=one) for one in range(args.queues)}
    workloads = tuple(Workload(name=name, model=name, inputs=Inputs(kind="zeros")) for name in models)
    arrivals = Poisson(rate=args.queues * args.used / mean_s)
    with known_server(models) as address:
        scenario = Scenario(
            workloads=workloads, target=Target(address=address), arrivals=arrivals, duration_s=args.seconds, seed=1
        )
        return figures(asyncio.run(run_load(scenario)), models)


def figures(run: LoadRun, models: dict[str, KnownModel]) -> dict[str, float]:
    """What was measured behind the warm-up, and what the draws make of it."""
    measured_s, drawn_s, lags_s = [], [], []
    for name, model in models.items():
        records = [record for record in run.records if record.workload == name]
        scheduled_s = np.array([record.scheduled_s for record in records])
        kept = scheduled_s > WARM_UP_S
        drawn_s.append(theory.sojourns(scheduled_s, services_s(model, len(records)))[kept])
        measured_s.append(np.array([record.ended_s - record.scheduled_s for record in records])[kept])
        lags_s.append(np.array([record.sent_s - record.scheduled_s for record in records])[kept])
    measured, drawn, lags = (np.concatenate(one) for one in (measured_s, drawn_s, lags_s))
    return {
        "requests": len(measured),
        "failed": sum(bool(record.error) for record in run.records),
        "mean": float(measured.mean()),
        "p95": float(np.quantile(measured, SHARE)),
        "drawn mean": float(drawn.mean()),
        "drawn p95": float(np.quantile(drawn, SHARE)),
        "added p50": float(np.median(measured - drawn)),
        "added p99": float(np.quantile(measured - drawn, 0.99)),
        "send lag p50": float(np.median(lags)),
        "send lag p99": float(np.quantile(lags, 0.99)),
        "loop lag p99": float(np.quantile(run.generator.loop_lags_s, 0.99)),
        "generator": run.generator.cpu_share,
        "machine": run.generator.machine_share,
    }


def report(found: dict[str, dict[str, float]], args: argparse.Namespace) -> Iterator[str]:
    yield f"{args.queues} queues, each used {args.used:.0%} of the time; a mean service of {args.service_ms:g} ms."
    yield f"Times run from when a request was meant to be sent to the end of its answer.\n\n{scheduling()}\n"
    service_s, rows, monitored = args.service_ms / 1e3, [], []
    for name, one in found.items():
        for figure, formula in zip(("mean", "p95"), KINDS[name][1:], strict=True):
            measured, drawn, known = one[figure], one[f"drawn {figure}"], formula(args.used / service_s, service_s)
            off = [measured / other - 1 for other in (drawn, known)]
            verdict = "yes" if max(map(abs, off)) <= WITHIN else "no"
            cells = [f"{1e3 * measured:.2f}", f"{1e3 * drawn:.2f}", f"{off[0]:+.2%}", f"{1e3 * known:.2f}"]
            rows.append([f"{name}, {figure}", *cells, f"{off[1]:+.2%}", verdict])
        times = [f"{1e3 * one[key]:.2f}" for key in one if key.startswith(("added", "send lag", "loop lag"))]
        shares = [f"{one['generator']:.0%}", f"{one['machine']:.0%}"]
        monitored.append([name, f"{one['requests']:,}", f"{one['failed']:.0f}", *times, *shares])
    yield table(["queue", "measured, ms", "drawn, ms", "off", "theory, ms", "off", f"within {WITHIN:.0%}"], rows)
    yield "\nHow the generator fared; added: measured less drawn, of each request.\n"
    heads = ["added p50, ms", "added p99, ms", "send lag p50, ms", "p99", "event loop late p99, ms"]
    yield table(["queue", "requests", "failed", *heads, "generator, of a core", "machine used"], monitored)


if __name__ == "__main__":
    main()
