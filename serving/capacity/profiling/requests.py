"""A load of random inputs on a served model, by the load generator of clients/load."""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from attendant.tensor_names import INPUT_IDS, PIXELS
from clients.load.arrivals import Arrivals
from clients.load.record import LoadRun
from clients.load.run import run_load
from clients.load.scenario import Inputs, Scenario, Target, Workload
from serving.capacity.profiling.inputs import create_input
from serving.engine.text_generation_model import CaptionModel, TextGenerationModel


def write_inputs(model: TextGenerationModel, lengths: Iterable[tuple[int, int]], path: Path, seed: int = 0) -> None:
    """Write a file of inputs, one a line, whose answers do not end before their length.

    Args:
        model: that will answer.
        lengths: tokens of each input and of its answer.
        path: of the file, ``.jsonl``.
        seed: of the tokens.
    """
    rng = np.random.default_rng(seed)
    name = PIXELS if isinstance(model, CaptionModel) else INPUT_IDS
    lines = [
        {name: np.asarray(create_input(model, prompt, rng)).tolist(), "max_tokens": answer, "ignore_eos": [True]}
        for prompt, answer in lengths
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def create_scenario(
    address: str,
    name: str,
    inputs_file: Path,
    arrivals: Arrivals,
    *,
    warmup_s: float,
    duration_s: float,
    seed: int = 0,
) -> Scenario:
    """A load of some seconds on a server; tokens are sent as they come.

    Args:
        address: of its gRPC endpoint.
        name: of the model.
        inputs_file: that :func:`write_inputs` wrote; they are sent in turn.
        arrivals: when they are sent.
        warmup_s: seconds before those that count.
        duration_s: seconds that count.
        seed: of the arrivals.
    """
    inputs: Any = Inputs(kind="files", files=(str(inputs_file),))
    return Scenario(
        workloads=(Workload(name=name, model=name, inputs=inputs, stream=True),),
        target=Target(address=address, timeout_s=60.0),
        arrivals=arrivals,
        warmup_s=warmup_s,
        duration_s=duration_s,
        seed=seed,
    )


def send_load(address: str, name: str, inputs_file: Path, arrivals: Arrivals, **bounds: Any) -> LoadRun:
    """Send such a load; see :func:`create_scenario`.

    Raises:
        ServerError: the server does not answer.
    """
    return asyncio.run(run_load(create_scenario(address, name, inputs_file, arrivals, **bounds)))
