"""A model behind a real Triton under loads of its own, and what serving it added at each of them.

saturation    half as many callers again as there are slots, each with one request after the other
other loads   Poisson arrivals at shares of it; lengths vary; all that at each of several servers
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from attendant.errors import ServerError
from attendant.manifest import Manifest
from attendant.parameters import Device, Runtime
from attendant.progress import progress
from attendant.tasks import task_named
from clients.load.arrivals import Arrivals, ClosedLoop, Poisson
from clients.load.record import RequestOutcome, RequestRecord
from serving.capacity.demand import Demand
from serving.capacity.lengths import Values
from serving.capacity.levels import Levels
from serving.capacity.profile import Profile
from serving.capacity.profiling.prompts import exactly, longest_question
from serving.capacity.profiling.requests import asked, write_questions
from serving.capacity.profiling.served import during, read_trace, served_of
from serving.capacity.profiling.traced import MODEL_PY, TRACE, Trace
from serving.engine.settings import EngineSettings
from serving.engine.text_generation_model import TextGenerationModel
from serving.triton.canary import canary_check
from serving.triton.repository.layout import VERSION, write_repository
from serving.triton.server.ports import free_ports
from serving.triton.server.process import TritonServer
from serving.triton.server.settings import ServerSettings

SHARES = (0.25, 0.5, 0.75)
REQUESTS = 1500
"""Of each load, all rounds together, in no less and no more than so many seconds."""
LEAST_S, MOST_S = 12.0, 30.0
ROUNDS = 3
"""Servers that are started one after the other: some are faster than others, whatever the reason."""
_LOOP_S, _WARM_UP_S = 3.0, 1.0
_START_S = 120.0
_ANSWER, _PROMPT = 64, 96
_QUESTIONS = 64
_SEED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A load: when it was, by the monotonic clock, what its clients saw behind the warm-up, and the server's trace."""

    began_s: float
    ended_s: float
    seconds: float
    records: list[RequestRecord]
    trace: Trace = field(default_factory=Trace)


def behind_triton(
    folder: Path,
    model: TextGenerationModel,
    profile: Profile,
    settings: EngineSettings,
    threads: int,
    runtime: Runtime,
    device: Device,
) -> Profile:
    """A profile with what serving adds.

    Args:
        folder: of the artefact.
        model: the same, loaded.
        profile: of its engine alone.
        settings: of the engine.
        threads: that one run of a graph may use.
        runtime: that runs it.
        device: that artefacts of torch run on.

    Raises:
        ServerError: the server does not start or answer.
    """
    lengths = _lengths(model)
    with tempfile.TemporaryDirectory() as scratch, progress("served", ROUNDS) as advance:
        repository, questions = Path(scratch) / "model_repository", Path(scratch) / "questions.jsonl"
        write_repository([folder], repository, threads, runtime, settings, device)
        body = MODEL_PY.format(body=task_named(Manifest.read(folder).task).body)
        (repository / folder.name / VERSION / "model.py").write_text(body, encoding="utf-8")
        write_questions(model, lengths, questions)
        rounds: list[list[Answered]] = []
        rates: list[float] = []
        for number in range(ROUNDS):
            rounds.append(_loads(folder.name, repository, questions, settings.max_num_seqs, rates, number))
            advance(f"{rates[-1]:.4g} requests/s")
    loads = list(zip(*rounds, strict=True))
    served = [
        served_of(profile, [(one.trace, one.records) for one in load], _tokens(load) / _seconds(load)) for load in loads
    ]
    made = replace(profile, served=tuple(sorted(served, key=lambda one: one.tokens_per_s)))
    error = max(_error(made, settings, lengths, load) for load in loads[: len(SHARES)])
    return replace(made, fit_error={**made.fit_error, "served": error})


def _lengths(model: TextGenerationModel) -> list[tuple[int, int]]:
    rng = np.random.default_rng(_SEED)
    longest = max(1, min(_PROMPT, longest_question(model) // 2))
    most = exactly(model, longest, _ANSWER, rng).max_tokens
    prompts, answers = rng.integers(1, longest + 1, _QUESTIONS), rng.integers(1, most + 1, _QUESTIONS)
    return list(zip(prompts.tolist(), answers.tolist(), strict=True))


def _loads(name: str, repository: Path, questions: Path, slots: int, rates: list[float], seed: int) -> list[Answered]:
    http, grpc, metrics = free_ports(3)
    ports = ServerSettings(repository=repository, http_port=http, grpc_port=grpc, metrics_port=metrics)
    with TritonServer(ports) as server:
        server.wait_until_ready(canary_check({name}, _START_S), _START_S)
        ask = partial(_asked, server.endpoints.grpc, name, questions, seed)
        full = ask(ClosedLoop(concurrency=slots + -(-slots // 2)), _LOOP_S)
        if not rates:
            rates += [share * len(full.records) / full.seconds for share in SHARES]
        loads = [*(ask(Poisson(rate=rate), _long_enough_s(rate)) for rate in rates), full]
    trace = read_trace(next((repository / name).rglob(TRACE), repository / TRACE))
    return [replace(load, trace=during(trace, load.began_s, load.ended_s)) for load in loads]


def _long_enough_s(rate: float) -> float:
    return float(np.clip(REQUESTS / rate, LEAST_S, MOST_S)) / ROUNDS


def _asked(address: str, name: str, questions: Path, seed: int, arrivals: Arrivals, seconds: float) -> Answered:
    began_s = time.monotonic()
    run = asked(address, name, questions, arrivals, warmup_s=_WARM_UP_S, duration_s=seconds, seed=seed)
    failed = [record.error for record in run.records if record.outcome is not RequestOutcome.OK]
    if failed:
        raise ServerError("every request answered while a profile is measured", failed[0], "look at the server's log")
    records = [record for record in run.records if record.scheduled_s >= _WARM_UP_S]
    passed_s = max(record.ended_s for record in records) - _WARM_UP_S
    return Answered(began_s=began_s, ended_s=time.monotonic(), seconds=passed_s, records=records)


def _tokens(load: Sequence[Answered]) -> int:
    return sum(sum(record.tokens) for one in load for record in one.records)


def _seconds(load: Sequence[Answered]) -> float:
    return sum(one.seconds for one in load)


def _error(
    profile: Profile, settings: EngineSettings, lengths: Sequence[tuple[int, int]], load: Sequence[Answered]
) -> float:
    prompts, answers = (Values(values=tuple(values)) for values in zip(*lengths, strict=True))
    records = [record for one in load for record in one.records]
    demand = Demand(rate=len(records) / _seconds(load), prompt=prompts, answer=answers)
    outcome = Levels(profile=profile, settings=settings, demand=demand, requests=2 * REQUESTS).under(1)
    seen_s = np.percentile([one.responses_s[0] - one.scheduled_s for one in records], 95)
    return float(abs(outcome.statistic("time_to_first_token", "p95") / seen_s - 1))
