"""What a server adds: callers behind a real Triton, and the costs with which the simulation repeats what they saw.

    observed, of each number of callers: requests a second, responses a request, mean time to the first token
    costs θ = (request_s, request_held_s, response_s, response_held_s) by Gauss-Newton on log θ:
    min Σ (ln simulated − ln observed)²

Clients run on the same machine, so what they take from it is in the costs, as it is in the load to be planned for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import astuple, dataclass, field, fields, replace

import numpy as np
from numpy.typing import NDArray

from clients.triton_client import TritonClient
from models.tensor_names import OUTPUT_IDS
from serving.generation.settings import EngineSettings
from serving.simulation.closed_loop import closed_loop
from serving.simulation.profile import Profile, Served
from serving.simulation.replica import Replica
from serving.simulation.sending import Heard

Values = NDArray[np.float64]
Question = Callable[[], Mapping[str, NDArray[np.generic]]]
_FIRST_GUESS = Served(request_s=1.5e-3, request_held_s=2e-4, response_s=3e-4, response_held_s=1e-4)
_LEAST_S = 1e-6
_STEP = 1.15  # of a cost, for its derivative
_ROUNDS = 5
_DAMPING = 0.05
_LEAST_REQUESTS, _EACH = 20, 5  # of a loop that is simulated, and of each caller


@dataclass(frozen=True, slots=True, kw_only=True)
class Callers:
    """What callers in a closed loop saw.

    Attributes:
        callers: at once.
        prompt, answer: tokens of each.
        stream: whether tokens were sent as they came.
        observed: natural logarithms of requests a second, responses a request, and mean seconds to the first token.
    """

    callers: int
    prompt: int
    answer: int
    stream: bool
    observed: tuple[float, float, float] = field(default=(0.0, 0.0, 0.0))


async def heard_of(server: str, model: str, callers: Callers, question: Question, seconds: float) -> list[Heard]:
    """Ask a server in a closed loop.

    Args:
        server: its gRPC address.
        model: its name.
        callers: how many, and how much they ask.
        question: makes the tensors of one request.
        seconds: in which requests are sent.
    """
    heard: list[Heard] = []
    began_s = time.monotonic()

    async def call(client: TritonClient) -> None:
        while time.monotonic() < began_s + seconds:
            one = Heard(time.monotonic() - began_s, callers.prompt)
            heard.append(one)
            async with aclosing(client.stream(model, question())) as responses:
                async for outputs in responses:
                    one.responses_s.append(time.monotonic() - began_s)
                    one.tokens.append(outputs[OUTPUT_IDS].size)
            one.is_over = True

    async with TritonClient(server, timeout_s=60.0) as client:
        await asyncio.gather(*(call(client) for _ in range(callers.callers)))
    return heard


def figures(heard: Sequence[Heard]) -> tuple[float, float, float]:
    """What a closed loop is compared by, logarithms (:class:`Callers`)."""
    seconds = max(one.responses_s[-1] for one in heard)
    responses = np.mean([len(one.responses_s) for one in heard])
    first_s = np.mean([one.responses_s[0] - one.intended_s for one in heard])
    logs = np.log([len(heard) / seconds, responses, first_s])
    return float(logs[0]), float(logs[1]), float(logs[2])


def fitted(profile: Profile, settings: EngineSettings, loops: Sequence[Callers]) -> tuple[Served, float]:
    """The costs with which a simulation repeats what callers saw best, and its largest relative error then.

    Args:
        profile: of the model; its own served costs are not looked at.
        settings: of the engine that was asked.
        loops: what was seen.
    """
    observed = np.array([loop.observed for loop in loops]).reshape(-1)

    def simulated(logs: Values) -> Values:
        served = _served(logs)
        return np.array([_figures(replace(profile, served=served), settings, loop) for loop in loops]).reshape(-1)

    logs = np.log(np.array(astuple(_FIRST_GUESS)))
    found = simulated(logs)
    for _ in range(_ROUNDS):
        columns = [(simulated(logs + step) - found) / np.log(_STEP) for step in np.eye(len(logs)) * np.log(_STEP)]
        matrix = np.stack(columns, axis=1)
        damped = matrix.T @ matrix + _DAMPING * np.eye(len(logs))
        move = np.clip(np.linalg.solve(damped, matrix.T @ (observed - found)), -1.0, 1.0)
        better = _first_better(simulated, logs, move, observed, float(np.square(observed - found).sum()))
        if better is None:
            break
        logs, found = better
    return _served(logs), float(np.expm1(np.abs(observed - found)).max())


def _first_better(
    simulated: Callable[[Values], Values], logs: Values, move: Values, observed: Values, error: float
) -> tuple[Values, Values] | None:
    for share in (1.0, 0.5, 0.2):
        found = simulated(logs + share * move)
        if np.square(observed - found).sum() < error * 0.999:
            return logs + share * move, found
    return None


def _served(logs: Values) -> Served:
    values = np.maximum(np.exp(logs), _LEAST_S)
    named = {spec.name: float(value) for spec, value in zip(fields(Served), values, strict=True)}
    return Served(**{**named, "response_held_s": min(named["response_held_s"], named["response_s"])})


def _figures(profile: Profile, settings: EngineSettings, loop: Callers) -> tuple[float, float, float]:
    replica = Replica(profile, settings, loop.stream)
    return figures(closed_loop(replica, loop.callers, _requests(loop), loop.prompt, loop.answer))


def _requests(loop: Callers) -> int:
    return _LEAST_REQUESTS + _EACH * loop.callers
