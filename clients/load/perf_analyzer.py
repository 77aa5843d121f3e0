"""A scenario for perf_analyzer: its input data as JSON, its arrivals as intervals, and the command that runs them.

    closed loop            --concurrency-range, every answer's end begins the next request; a duration in the three
                           windows that it wants at least
    any open loop          --request-intervals, the very times that our generator would use, in microseconds, each once

What perf_analyzer cannot do is left out and told: verifying answers, cancelling requests, deadlines, mixes (each
workload gets a command of its own), parameters over HTTP or with fractions. Its ``--stability-percentage`` is set so
that a noisy machine does not end without a figure.

Source: triton-inference-server/perf_analyzer at 263c5f6, docs/cli.md, docs/input_data.md, docs/inference_load_modes.md,
src/command_line_parser.cc (what it refuses), src/inference_profiler.cc (windows); run with perf_analyzer 2.60.0.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clients.load.arrivals import ClosedLoop
from clients.load.plan import intended_times
from clients.load.run import prepare
from clients.load.scenario import Scenario, Workload
from clients.load.transport import Prepared, transport_to
from clients.load.wanted import inputs_of
from models.errors import InputError, OutputError

STABILITY = "999"
WINDOWS = 3
Array = NDArray[Any]
_TYPES = {bool: "bool", int: "int", str: "string"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """One workload for perf_analyzer.

    Attributes:
        command: to run in the folder.
        left_out: what the scenario asks and perf_analyzer cannot do.
    """

    command: list[str]
    left_out: tuple[str, ...]


def export(scenario: Scenario, prepared: list[Prepared], folder: Path) -> list[Exported]:
    """Write the files of every workload, and a script with its command.

    Args:
        scenario: over gRPC or HTTP.
        prepared: its workloads, as the transport made them ready.
        folder: is made.

    Raises:
        InputError: the scenario asks an OpenAI endpoint, a stream over HTTP, or a model of which nothing is known.
        OutputError: the folder cannot be written.
    """
    if scenario.target.transport == "openai":
        raise InputError("a scenario of Triton's own protocols", "transport openai", "use AIPerf: benchmarks/aiperf")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_export(scenario, one, folder) for one in prepared]
    except OSError as error:
        raise OutputError(f"a folder to write at {folder}", str(error), "choose another --out") from error


def exported(scenario: Scenario, folder: Path) -> list[Exported]:
    """Ask the scenario's server what its models take, and :func:`export` it.

    Raises:
        UnreachableError: nothing answers at the address.
        UnknownNameError: the server has no model of that name.
        InputError: as :func:`export`, and where inputs do not fit a model.
        OutputError: the folder cannot be written.
    """

    async def asked() -> list[Prepared]:
        transport = transport_to(scenario.target)
        try:
            return await prepare(scenario, transport)
        finally:
            await transport.close()

    return export(scenario, asyncio.run(asked()), folder)


def input_data(prepared: Prepared) -> dict[str, Any]:
    """Every question as perf_analyzer's JSON has it; of a batch each row by itself, for ``-b`` joins them."""
    assert prepared.model is not None, "it is checked"
    batched = prepared.model.max_batch > 0
    return {
        "data": [
            {name: _tensor(array) for name, array in row.items()}
            for number in range(len(prepared.questions))
            for row in _rows(_inputs(prepared, number), batched)
        ]
    }


def _export(scenario: Scenario, prepared: Prepared, folder: Path) -> Exported:
    if prepared.model is None:
        raise InputError("a model that the server describes", prepared.workload.model, "ask Triton itself")
    if prepared.model.decoupled and scenario.target.transport != "grpc":
        raise InputError("a stream over gRPC, as perf_analyzer reads it", "transport http", "set transport to grpc")
    name = prepared.workload.name
    (folder / f"{name}.json").write_text(json.dumps(input_data(prepared)) + "\n", encoding="utf-8")
    command = [*_asked(scenario, prepared), *_arrivals(scenario, folder)]
    script = f'#!/bin/sh\nset -eu\ncd "$(dirname "$0")"\n{shlex.join(command)}\n'
    (folder / f"{name}.sh").write_text(script, encoding="utf-8")
    (folder / f"{name}.sh").chmod(0o755)
    return Exported(command=command, left_out=tuple(_left_out(scenario, prepared.workload)))


def _asked(scenario: Scenario, prepared: Prepared) -> list[str]:
    assert prepared.model is not None, "it is checked"
    workload, target = prepared.workload, scenario.target
    command = ["perf_analyzer", "-m", workload.model, "-u", target.address, "-i", target.transport]
    command += ["--input-data", f"{workload.name}.json", "--async"]
    command += ["--streaming"] if prepared.model.decoupled else []
    rows = len(next(iter(_inputs(prepared, 0).values())))
    command += ["-b", str(rows)] if prepared.model.max_batch and rows > 1 else []
    command += ["--shared-memory", "system"] if target.shared_memory else []
    for name, value in _parameters(scenario, workload).items():
        said = str(value).lower() if isinstance(value, bool) else value
        command += ["--request-parameter", f"{name}:{said}:{_TYPES[type(value)]}"]
    return [*command, "--stability-percentage", STABILITY, "--profile-export-file", f"{workload.name}-profile.json"]


def _arrivals(scenario: Scenario, folder: Path) -> list[str]:
    if isinstance(scenario.arrivals, ClosedLoop):
        return _closed_loop(scenario.arrivals.concurrency, scenario)
    times, _ = intended_times(scenario)
    gaps = np.maximum(np.rint(np.diff(times, prepend=0.0) * 1e6).astype(np.int64), 1)
    (folder / "intervals.txt").write_text("".join(f"{gap}\n" for gap in gaps), encoding="utf-8")
    return ["--request-intervals", "intervals.txt", "--request-count", str(len(gaps))]


def _closed_loop(concurrency: int, scenario: Scenario) -> list[str]:
    if scenario.requests is not None:
        # It refuses more callers than requests.
        count = scenario.requests
        return ["--concurrency-range", str(min(concurrency, count)), "--request-count", str(count)]
    seconds = scenario.duration_s or 1.0
    window = ["--measurement-interval", str(round(1000 * seconds / WINDOWS)), "--max-trials", str(WINDOWS)]
    return ["--concurrency-range", str(concurrency), *window]


def _parameters(scenario: Scenario, workload: Workload) -> dict[str, bool | int | str]:
    if scenario.target.transport != "grpc":
        return {}
    named = workload.parameters.items()
    return {name: value for name, value in named if type(value) in _TYPES and ":" not in f"{name}{value}"}


def _left_out(scenario: Scenario, workload: Workload) -> Iterator[str]:
    if workload.expect.kind != "nothing":
        yield f"{workload.name}: answers are not verified"
    if workload.cancel is not None:
        yield f"{workload.name}: no request is cancelled"
    if workload.deadline_ms is not None:
        yield f"{workload.name}: no request has a deadline"
    for name in sorted(workload.parameters.keys() - _parameters(scenario, workload).keys()):
        yield f"{workload.name}: no parameter {name}, which it sends over gRPC only, without fractions and colons"
    if len(scenario.workloads) > 1:
        yield f"{workload.name}: it runs alone, at the rate of the whole mix"


def _inputs(prepared: Prepared, number: int) -> Mapping[str, Array]:
    assert prepared.model is not None, "it is checked"
    return inputs_of(prepared.workload, prepared.model, prepared.questions[number])


def _rows(inputs: Mapping[str, Array], batched: bool) -> Iterator[Mapping[str, Array]]:
    if not batched:
        yield inputs
        return
    for number in range(len(next(iter(inputs.values())))):
        yield {name: array[number] for name, array in inputs.items()}


def _tensor(array: Array) -> dict[str, Any]:
    return {"content": [_plain(value) for value in array.ravel().tolist()], "shape": list(array.shape)}


def _plain(value: Any) -> Any:
    return value.decode("utf-8") if isinstance(value, bytes) else value
