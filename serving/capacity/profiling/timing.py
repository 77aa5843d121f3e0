"""What a call takes where others share the machine: in rounds over all calls, the median of each."""

import time
from collections.abc import Callable, Sequence

import numpy as np

from attendant.progress import progress

ROUNDS = 5
_ENOUGH_S = 0.01
_LEAST_CALLS, _MOST_CALLS = 3, 20
Call = Callable[[], object]


def measure_medians(calls: Sequence[Call], title: str, rounds: int = ROUNDS) -> list[float]:
    """Seconds of each call; a disturbance of one round meets them all.

    Args:
        calls: that can be repeated; one more round warms them up.
        title: of the progress.
        rounds: that count.
    """
    seconds: list[list[float]] = []
    with progress(title, rounds + 1) as advance:
        for number in range(rounds + 1):
            seconds.append([_measure_call(call) for call in calls])
            advance(f"round {number}")
    return [float(value) for value in np.median(seconds[1:], axis=0)]


def _measure_call(call: Call) -> float:
    call()  # what it reads lies in the caches afterwards, as a server's weights and slots do
    seconds: list[float] = []
    while len(seconds) < _LEAST_CALLS or (len(seconds) < _MOST_CALLS and sum(seconds) < _ENOUGH_S):
        began_s = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began_s)
    return float(np.median(seconds))


def fit_nonnegative(parts: Sequence[Sequence[float]], totals: Sequence[float]) -> list[float]:
    """The coefficients, none below 0, with which the parts add up to the totals best, by least squares."""
    matrix, targets = np.array(parts, dtype=float), np.array(totals, dtype=float)
    kept = list(range(matrix.shape[1]))
    while kept:
        found, *_ = np.linalg.lstsq(matrix[:, kept], targets, rcond=None)
        if found.min() >= 0:
            return [float(found[kept.index(part)]) if part in kept else 0.0 for part in range(matrix.shape[1])]
        del kept[int(found.argmin())]
    return [0.0] * matrix.shape[1]
