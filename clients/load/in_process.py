"""What the same requests take without a server: a process of ``serving`` answers them one by one, before the run."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from attendant.errors import InputError, MachineError
from clients.load.infer_message import request_message
from clients.load.request_inputs import inputs_of
from clients.load.scenario import InProcess, Scenario
from clients.load.transport import Prepared

LENGTH_BYTES = 4  # before each request: serving/triton/offline.py


async def in_process_seconds(scenario: Scenario, prepared: list[Prepared]) -> tuple[float, ...]:
    """Seconds of each request, one at a time; none where the scenario names no repository.

    Raises:
        InputError: the repository lacks a model, or the server does not describe it.
        MachineError: this environment cannot run it.
    """
    if not scenario.in_process.repository:
        return ()
    found: list[float] = []
    for one in prepared:
        found += await _alone(one, scenario.in_process)
    return tuple(found)


async def _alone(prepared: Prepared, asked: InProcess) -> list[float]:
    folder = Path(asked.repository) / prepared.workload.model
    if prepared.model is None or not (folder / "config.pbtxt").is_file():
        raise InputError(f"the model that the server serves at {folder}", "none", "correct in_process.repository")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "attendant", "bench", "offline", str(folder)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    told, error = await process.communicate(b"".join(_messages(prepared, asked.requests)))
    if process.returncode:
        raise MachineError(
            f"seconds of {folder} without a server", error.decode().strip(), "see `attendant bench offline --help`"
        )
    return [float(seconds) for seconds in json.loads(told)]


def _messages(prepared: Prepared, number: int) -> Iterator[bytes]:
    assert prepared.model is not None, "it is checked"
    for turn in range(number):
        question = prepared.questions[turn % len(prepared.questions)]
        inputs = inputs_of(prepared.workload, prepared.model, question)
        message = request_message(prepared.model.name, inputs).SerializeToString()
        yield len(message).to_bytes(LENGTH_BYTES, "little") + message
