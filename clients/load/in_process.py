"""What the same requests take without a server: `attendant bench offline` answers them one by one, before the run."""

import asyncio
import json
import sys
from pathlib import Path

from attendant.errors import InputError, MachineError
from clients.load.infer_message import create_message
from clients.load.request_tensors import request_tensors
from clients.load.scenario import Scenario
from clients.load.transport import PreparedWorkload

LENGTH_BYTES = 4  # before each request: serving/triton/offline.py


async def measure_in_process(scenario: Scenario, prepared: list[PreparedWorkload]) -> tuple[float, ...]:
    """Seconds of each request, one at a time; none where the scenario names no repository.

    Raises:
        InputError: the repository lacks a model, or the server does not describe it.
        MachineError: this environment cannot run it.
    """
    if not scenario.in_process.repository:
        return ()
    seconds: list[float] = []
    for one in prepared:
        folder, model = Path(scenario.in_process.repository) / one.workload.model, one.model
        if model is None or not (folder / "config.pbtxt").is_file():
            raise InputError(f"the model that the server serves at {folder}", "none", "correct in_process.repository")
        content = bytearray()
        for turn in range(scenario.in_process.requests):
            tensors = request_tensors(one.workload, model, one.inputs[turn % len(one.inputs)])
            message = create_message(model.name, tensors).SerializeToString()
            content += len(message).to_bytes(LENGTH_BYTES, "little") + message
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "attendant", "bench", "offline", str(folder)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, error = await process.communicate(content)
        if process.returncode:
            raise MachineError(
                f"seconds of {folder} without a server", error.decode().strip(), "see `attendant bench offline --help`"
            )
        seconds += [float(seconds) for seconds in json.loads(output)]
    return tuple(seconds)
