"""What a server adds to its engine: load tests of a real Triton beside simulations of the engine under the same load.

factor     rate at which the engine saturates by its profile / rate at which the server does, in a closed loop
request_s  95th percentile of the time to the first token at half of that, measured − simulated with the factor

Objectives are set on high percentiles: a plan is right there, and pessimistic about the median. The error that is
stated is that of the 95th percentile at a quarter, which nothing was made of.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np

from attendant.errors import ServerError
from attendant.parameters import Device, Runtime
from attendant.progress import progress
from attendant.temporary_folders import temporary_folder
from clients.load.arrivals import Arrivals, ClosedLoop, Poisson
from clients.load.record import RequestOutcome, RequestRecord
from serving.capacity.demand import Demand
from serving.capacity.lengths import ObservedLengths
from serving.capacity.levels import Levels
from serving.capacity.profile import ReplicaProfile, ServerOverhead
from serving.capacity.profiling.inputs import longest_input, request_of_length
from serving.capacity.profiling.requests import send_load, write_inputs
from serving.engine.settings import EngineSettings
from serving.engine.text_generation_model import TextGenerationModel
from serving.triton.canary import canary_check
from serving.triton.repository.layout import write_repository
from serving.triton.server.ports import free_ports
from serving.triton.server.process import TritonServer
from serving.triton.server.settings import ServerSettings

ROUNDS = 3
"""Servers that are started one after the other: some are faster than others, whatever the reason."""
SHARES, SIMULATED = (0.5, 0.25), 3000
CLOSED_S, POISSON_S, WARM_UP_S = 4.0, 8.0, 1.0
_START_S = 120.0
_INPUTS, _ANSWER, _PROMPT = 64, 64, 96


def measure_server(
    folder: Path,
    model: TextGenerationModel,
    profile: ReplicaProfile,
    settings: EngineSettings,
    threads: int,
    runtime: Runtime,
    device: Device,
) -> ReplicaProfile:
    """A profile with what serving adds.

    Args:
        folder: of the artefact.
        model: the same, loaded.
        profile: of its engine, offline.
        settings: of the engine.
        threads: that one run of a graph may use.
        runtime: that runs it.
        device: that artefacts of torch run on.

    Raises:
        ServerError: the server does not start or answer.
    """
    rng = np.random.default_rng(1)
    longest = max(1, min(_PROMPT, longest_input(model) // 2))
    most = request_of_length(model, longest, _ANSWER, rng).max_tokens
    prompts, answers = (rng.integers(1, end + 1, _INPUTS).tolist() for end in (longest, most))
    clients = ClosedLoop(concurrency=settings.max_num_seqs + -(-settings.max_num_seqs // 2))
    rates, first_s = list[float](), [list[float](), list[float]()]
    with (
        temporary_folder() as scratch,
        progress("served", ROUNDS) as advance,
    ):
        repository, inputs = Path(scratch) / "model_repository", Path(scratch) / "inputs.jsonl"
        write_repository([folder], repository, threads, runtime, settings, device)
        write_inputs(model, zip(prompts, answers, strict=True), inputs)
        grpc, metrics = free_ports(2)
        ports = ServerSettings(repository=repository, grpc_port=grpc, metrics_port=metrics)
        for number in range(ROUNDS):
            with TritonServer(ports) as server:
                server.wait_until_ready(canary_check({folder.name}, _START_S), _START_S)
                address = server.endpoints.grpc
                rates.append(_rate(_send(address, folder.name, inputs, clients, CLOSED_S, number)))
                for share, seconds in zip(SHARES, first_s, strict=True):
                    records = _send(address, folder.name, inputs, Poisson(rate=share * rates[0]), POISSON_S, number)
                    seconds += [record.responses_s[0] - record.scheduled_s for record in records]
            advance(f"{rates[-1]:.4g} requests/s")
    lengths = [ObservedLengths(values=tuple(values)) for values in (prompts, answers)]
    demand = Demand(rate=SHARES[0] * rates[0], prompt=lengths[0], answer=lengths[1])
    levels = Levels(profile=profile, settings=settings, demand=demand, requests=SIMULATED)
    factor = levels.saturation.requests / median(rates)
    levels = replace(levels, profile=replace(profile, served=ServerOverhead(factor=factor)))
    half_s, quarter_s = (
        replace(levels, demand=replace(demand, rate=share * rates[0]))
        .simulate(1)
        .statistic("time_to_first_token", "p95")
        for share in SHARES
    )
    measured_s, checked_s = (float(np.percentile(seconds, 95)) for seconds in first_s)
    served = ServerOverhead(factor=factor, request_s=max(0.0, measured_s - half_s))
    error = abs((quarter_s + served.request_s) / checked_s - 1)
    return replace(profile, served=served, fit_error={**profile.fit_error, "served": error})


def _send(
    address: str, name: str, inputs: Path, arrivals: Arrivals, duration_s: float, seed: int
) -> list[RequestRecord]:
    run = send_load(address, name, inputs, arrivals, warmup_s=WARM_UP_S, duration_s=duration_s, seed=seed)
    failed = [record.error for record in run.records if record.outcome is not RequestOutcome.OK]
    if failed:
        raise ServerError("every request answered while a profile is measured", failed[0], "look at the server's log")
    return [record for record in run.records if record.scheduled_s >= WARM_UP_S]


def _rate(records: Sequence[RequestRecord]) -> float:
    return len(records) / (max(record.ended_s for record in records) - WARM_UP_S)
