"""An artefact → the profile of a replica of it on this machine."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from clients.load.arrivals import ClosedLoop
from clients.load.record import Outcome
from models.errors import ServerError
from models.progress import progress
from serving.canary import canary_check
from serving.generation.settings import EngineSettings
from serving.generation.writing_model import WritingModel
from serving.parameters import Device, Runtime
from serving.profiling.asking import asked, write_questions
from serving.profiling.grids import Grids
from serving.profiling.overhead import overhead_of
from serving.profiling.served import Callers, figures, fitted
from serving.profiling.subjects import exactly, loaded, longest_question
from serving.repository.layout import write_repository
from serving.runtime.processor import processor_name
from serving.simulation.profile import Profile
from serving.triton_server.ports import free_ports
from serving.triton_server.process import TritonServer
from serving.triton_server.settings import ServerSettings

_START_S = 120.0
_ANSWER = 64
_PROMPT = 32
_WARM_UP_S, _LOOP_S = 0.5, 3.0
_QUESTIONS = 64


def measured(
    folder: Path,
    settings: EngineSettings,
    threads: int = 1,
    runtime: Runtime = "auto",
    device: Device = "auto",
    served: bool = True,
) -> Profile:
    """Measure an artefact.

    Args:
        folder: of a model that answers with text.
        settings: up to as many slots and prompt tokens.
        threads: that one run of a graph may use.
        runtime: that runs it.
        device: that artefacts of torch run on.
        served: whether a tritonserver is started for what serving adds; without, that is nothing.

    Raises:
        UserError: the artefact answers with something else.
        ServerError: the server does not start or answer.
    """
    settings = replace(settings, prefix_bytes=0)
    model = loaded(folder, settings, threads, runtime, device)
    grids = Grids(model, settings.slots)
    decode, prompt, encoder = grids.decode(), grids.prompt(settings.prompt_tokens), grids.encoder()
    tables = {"decode": decode, "prompt": prompt, "encoder": encoder}
    made = {name: None if one is None else one.table for name, one in tables.items()}
    profile = Profile(
        name=folder.name,
        machine=f"{processor_name()}, {os.cpu_count()} cores, {threads} thread(s) a run",
        capacity=grids.capacity,
        decode=decode.table,
        prompt=made["prompt"],
        encoder=made["encoder"],
        overhead=overhead_of(model, decode.table, made["prompt"], made["encoder"]),
        fit_error={name: one.error for name, one in tables.items() if one is not None},
    )
    if not served:
        return profile
    loops = _behind_triton(folder, model, settings, threads, runtime, device)
    costs, error = fitted(profile, settings, loops)
    return replace(profile, served=costs, fit_error={**profile.fit_error, "served": error})


def _behind_triton(
    folder: Path, model: WritingModel, settings: EngineSettings, threads: int, runtime: Runtime, device: Device
) -> list[Callers]:
    length = max(1, min(_PROMPT, longest_question(model) // 2))
    answer = exactly(model, length, _ANSWER, np.random.default_rng(0)).max_tokens
    most = settings.slots
    loops = [(1, 1, True), (1, answer, True), (1, answer, False), (most, answer, False)]
    loops += [(count, answer, True) for count in sorted({min(4, most), most, most + most // 2})]
    plans = [
        Callers(callers=count, prompt=length, answer=tokens, stream=stream)
        for count, tokens, stream in dict.fromkeys(loops)
    ]
    with tempfile.TemporaryDirectory() as scratch:
        repository = Path(scratch) / "model_repository"
        write_repository([folder], repository, threads, runtime, settings, device)
        http, grpc, metrics = free_ports(3)
        ports = ServerSettings(repository=repository, http_port=http, grpc_port=grpc, metrics_port=metrics)
        questions = Path(scratch) / "questions.jsonl"
        with TritonServer(ports) as server, progress("served", len(plans)) as advance:
            server.wait_until_ready(canary_check({folder.name}, _START_S), _START_S)
            found = []
            for plan in plans:
                write_questions(model, [(plan.prompt, plan.answer)] * _QUESTIONS, questions)
                found.append(_asked(server.endpoints.grpc, folder.name, questions, plan))
                advance(f"{plan.callers} callers")
    return found


def _asked(address: str, name: str, questions: Path, plan: Callers) -> Callers:
    arrivals = ClosedLoop(concurrency=plan.callers)
    run = asked(address, name, questions, arrivals, stream=plan.stream, warmup_s=_WARM_UP_S, duration_s=_LOOP_S)
    failed = [record.error for record in run.records if record.outcome is not Outcome.OK]
    if failed:
        raise ServerError("every request answered while a profile is measured", failed[0], "look at the server's log")
    return replace(plan, observed=figures([record for record in run.records if record.intended_s >= _WARM_UP_S]))
