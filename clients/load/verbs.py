"""Test a server under load: when requests arrive, what they ask, and what the right answers are stands in a scenario.

    python -m clients load run benchmarks/latency/digits-vit.toml          a scenario from a file
    python -m clients load run --model digits-vit --concurrency 8          a simple one, told by flags
    python -m clients load run --model dates-transformer --rate 50 --arrivals poisson
    python -m clients load plan profile.json demand.toml                   how many replicas a demand takes

docs/guides/load.md explains the file, the arrivals, and what is measured from which clock.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from clients.load.arrivals import Arrivals, ClosedLoop, Constant, Gamma, Poisson
from clients.load.capacity import plan
from clients.load.record import LoadRun, Outcome
from clients.load.run import run_load
from clients.load.scenario import Scenario, Target, Transport, Workload
from clients.load.scenario_file import read_scenario
from models.cli import Verb
from models.errors import UserError

Kind = Literal["constant", "poisson", "gamma"]


def run(
    scenario: Positional[Path | None] = None,
    model: str | None = None,
    server: str = "127.0.0.1:8001",
    metrics: str = "",
    transport: Transport = "grpc",
    concurrency: int = 1,
    rate: float | None = None,
    arrivals: Kind = "poisson",
    shape: float = 0.5,
    duration_s: float = 10.0,
    warmup_s: float = 1.0,
    seed: int = 0,
) -> int:
    """Run one load test, and tell what it met; exit status 1 if a request failed or was answered wrongly.

    Args:
        scenario: a TOML file; the flags below are for a run without one, of a model's own example.
        model: that is asked.
        server: host and port; of the OpenAI protocol an address with scheme.
        metrics: host and port where Prometheus reads Triton's counters; they are not read if not given.
        transport: how it is asked.
        concurrency: requests at once, where no rate is given.
        rate: requests a second, whatever the answers take.
        arrivals: how requests of a rate are spread.
        shape: of gamma arrivals; below 1 they come in bursts.
        duration_s: how long, in seconds, behind the warm-up.
        warmup_s: seconds at the beginning that are no part of the figures.
        seed: of arrivals.
    """
    if (scenario is None) == (model is None):
        raise UserError("a scenario's file or --model", "both" if model else "neither", "give one of them")
    if scenario is not None:
        asked = read_scenario(scenario)
    else:
        asked = Scenario(
            name=str(model),
            target=Target(transport=transport, address=server, metrics=metrics),
            arrivals=_arrivals(concurrency, rate, arrivals, shape),
            workloads=(Workload(name=str(model), model=str(model)),),
            duration_s=duration_s,
            warmup_s=warmup_s,
            seed=seed,
        )
    return _told(asyncio.run(run_load(asked, command=shlex.join(["python", "-m", "clients", *sys.argv[1:]]))))


def _arrivals(concurrency: int, rate: float | None, kind: Kind, shape: float) -> Arrivals:
    if rate is None:
        return ClosedLoop(concurrency=concurrency)
    match kind:
        case "constant":
            return Constant(rate=rate)
        case "poisson":
            return Poisson(rate=rate)
        case "gamma":
            return Gamma(rate=rate, shape=shape)


def _told(found: LoadRun) -> int:
    counts = {outcome: sum(record.outcome is outcome for record in found.records) for outcome in Outcome}
    told = ", ".join(f"{count} {outcome.value}" for outcome, count in counts.items() if count)
    tokens = sum(sum(record.tokens) for record in found.records)
    seconds = found.duration_s
    sys.stdout.write(
        f"{len(found.records)} requests in {seconds:.1f} s: {told}; {len(found.records) / seconds:.1f} requests/s, "
        f"{tokens / seconds:.0f} tokens/s; the generator used {found.watch.cpu_share:.0%} of a core\n"
    )
    return 1 if counts[Outcome.ERROR] + counts[Outcome.WRONG] else 0


VERBS: dict[str, Verb] = {"run": run, "plan": plan}
