"""What a server adds: callers behind a real Triton, and the costs with which the simulation repeats what they saw.

    observed, of each number of callers: requests a second, responses a request, mean time to the first token
    costs θ = (request_s, request_busy_s, request_held_s, response_s, response_wait) by Gauss-Newton on log θ:
    min Σ (ln simulated − ln observed)²

Clients run on the same machine, so what they take from it is in the costs, as it is in the load to be planned for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from serving.generation.settings import EngineSettings
from serving.simulation.closed_loop import closed_loop
from serving.simulation.profile import Profile, Served
from serving.simulation.replica import Replica

Values = NDArray[np.float64]
_FIRST_GUESS = Served(request_s=1.5e-3, request_busy_s=1e-3, request_held_s=2e-4, response_s=2e-4, response_wait=0.5)
_LEAST = 1e-6
_STEP = 1.15  # of a cost, for its derivative
_ROUNDS = 4
_DAMPING = 0.05
_LEAST_REQUESTS, _EACH = 12, 3  # of a loop that is simulated, and of each caller


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
    observed: tuple[float, float, float] = (0.0, 0.0, 0.0)


class Answered(Protocol):
    """A request that was answered."""

    @property
    def intended_s(self) -> float:
        """When it was sent."""

    @property
    def responses_s(self) -> Sequence[float]:
        """When its responses came."""


def figures(heard: Sequence[Answered]) -> tuple[float, float, float]:
    """What a closed loop is compared by, logarithms (:class:`Callers`)."""
    seconds = max(one.responses_s[-1] for one in heard) - min(one.intended_s for one in heard)
    responses = np.mean([len(one.responses_s) for one in heard])
    first_s = np.mean([one.responses_s[0] - one.intended_s for one in heard])
    logs = np.log(np.array([len(heard) / seconds, float(responses), float(first_s)]))
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
    values = np.maximum(np.exp(logs), _LEAST)
    named = {spec.name: float(value) for spec, value in zip(fields(Served), values, strict=True)}
    return Served(**{**named, "response_wait": min(named["response_wait"], 1.0)})


def _figures(profile: Profile, settings: EngineSettings, loop: Callers) -> tuple[float, float, float]:
    replica = Replica(profile, settings, loop.stream)
    return figures(closed_loop(replica, loop.callers, _requests(loop), loop.prompt, loop.answer))


def _requests(loop: Callers) -> int:
    return _LEAST_REQUESTS + _EACH * loop.callers
