"""A model of the server whose times are known: how long it takes, and its faults."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

BLOCK = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """One model.

    Attributes:
        service: how the time of a request is distributed.
        mean_s: of that time.
        seed: it is drawn from.
        stall_at: the number of the request before which the model stands still, from 1; never if 0.
        stall_s: for how long.
        tokens: of an answer that is streamed; 0 answers whole.
        step_s: between two of them.
        fault: ``few``: a token less than promised, and the final flag; ``unfinished``: no final flag; ``text``: another
            text at the end.
    """

    service: Literal["deterministic", "exponential"] = "deterministic"
    mean_s: float = 0.0
    seed: int = 0
    stall_at: int = 0
    stall_s: float = 0.0
    tokens: int = 0
    step_s: float = 0.0
    fault: Literal["", "few", "unfinished", "text"] = ""


def draw_services(model: KnownModel) -> Iterator[float]:
    """The times of requests in seconds, in the order in which they arrive, without end."""
    rng = np.random.default_rng(model.seed)
    while True:
        even = model.service == "deterministic"
        yield from ([model.mean_s] * BLOCK if even else rng.exponential(model.mean_s, BLOCK).tolist())


def services_s(model: KnownModel, number: int) -> NDArray[np.float64]:
    """The times of the first requests in seconds ``[N]``."""
    return np.fromiter(draw_services(model), np.float64, number)


@contextmanager
def known_server(models: Mapping[str, KnownModel]) -> Iterator[str]:
    """A server over such models in a process of its own; its address."""
    models_json = json.dumps({name: asdict(model) for name, model in models.items()})
    command = [sys.executable, "-m", "clients.load.calibration.known_server", models_json]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None, "they are pipes"
        try:
            yield f"127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()
            process.wait(10)
