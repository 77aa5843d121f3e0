"""The verb that runs a load test."""

from pathlib import Path
from typing import Literal

from tyro.conf import OmitArgPrefixes, Positional

from attendant.errors import UserError
from clients.load.analysis.slo import parse_objectives
from clients.load.arrivals import Arrivals, ClosedLoop, Constant, Gamma, Poisson
from clients.load.report.deliver import deliver
from clients.load.run_file import require_writable, write_run
from clients.load.run_with_progress import run_with_progress
from clients.load.scenario import InProcess, Scenario, Target, Transport, Workload
from clients.load.scenario_file import read_scenario
from clients.tls import Tls

Kind = Literal["constant", "poisson", "gamma"]
_NO_TLS = Tls()


def run(
    scenario: Positional[Path | None] = None,
    model: str | None = None,
    server: str = "127.0.0.1:8001",
    metrics: str = "",
    transport: Transport = "grpc",
    security: OmitArgPrefixes[Tls] = _NO_TLS,
    concurrency: int = 1,
    rate: float | None = None,
    arrivals: Kind = "poisson",
    shape: float = 0.5,
    duration_s: float = 10.0,
    warmup_s: float = 1.0,
    seed: int = 0,
    slo: str = "",
    out: Path | None = None,
    html: Path | None = None,
    csv: Path | None = None,
    json: bool = False,
    in_process: str = "",
) -> int:
    """Run one load test, and report it; exit status 1 if it is invalid or misses an objective.

    Args:
        scenario: a TOML file; the flags below are for a run without one, of a model's own example.
        model: that is config.
        server: host and port; of the OpenAI protocol an address with scheme.
        metrics: host and port where Prometheus reads Triton's counters; they are not read if not given.
        transport: how it is config.
        security: TLS towards the server.
        concurrency: requests at once, where no rate is given.
        rate: requests a second, whatever the answers take.
        arrivals: how requests of a rate are spread.
        shape: of gamma arrivals; below 1 they come in bursts.
        duration_s: how long, in seconds, after the warm-up.
        warmup_s: seconds at the beginning that are no part of the figures.
        seed: of arrivals.
        slo: objectives, as ttft_p95<200ms,itl_p95<50ms.
        out: file for the run itself, to report or compare it later.
        html: file for a page with plots.
        csv: file for a line a request.
        json: JSON in the layout of AIPerf, in place of tables.
        in_process: the model repository that the server serves: the same requests are timed without it beforehand.
    """
    objectives = parse_objectives(slo)
    if (scenario is None) == (model is None):
        raise UserError("a scenario's file or --model", "both" if model else "neither", "give one of them")
    if scenario is not None:
        config = read_scenario(scenario)
    else:
        config = Scenario(
            name=str(model),
            target=_create_target(transport, server, metrics, security),
            arrivals=_create_arrivals(concurrency, rate, arrivals, shape),
            workloads=(Workload(name=str(model), model=str(model)),),
            duration_s=duration_s,
            warmup_s=warmup_s,
            seed=seed,
            in_process=InProcess(repository=in_process),
        )
    require_writable(out, html, csv)
    found = run_with_progress(config)
    if out is not None:
        write_run(found, out)
    return deliver(found, objectives, html, csv, json)


def _create_target(transport: Transport, server: str, metrics: str, security: Tls) -> Target:
    ca, cert, key = (str(path or "") for path in (security.ca, security.cert, security.key))
    return Target(
        transport=transport,
        address=server,
        metrics=metrics,
        tls=security.tls,
        ca=ca,
        cert=cert,
        key=key,
        tls_name=security.tls_name,
    )


def _create_arrivals(concurrency: int, rate: float | None, kind: Kind, shape: float) -> Arrivals:
    if rate is None:
        return ClosedLoop(concurrency=concurrency)
    match kind:
        case "constant":
            return Constant(rate=rate)
        case "poisson":
            return Poisson(rate=rate)
        case "gamma":
            return Gamma(rate=rate, shape=shape)
