"""What varies from one time to the next: kept of what was measured, and drawn by chance from what was kept.

spread    means of equal parts of the values, rising: what one of them is says nothing of the next
stretches values that followed each other: what is slow now will be slow for a while
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Series = tuple[float, ...]
Values = NDArray[np.float64]
PARTS = 50
STRETCH, STRETCHES = 25, 40
_DIGITS = 4
_AT_ONCE = 4096


def spread_of(samples: Sequence[float]) -> Series:
    """The spread of what was measured; its mean is theirs.

    Args:
        samples: at least one.
    """
    ordered = np.sort(np.asarray(samples, dtype=float))
    ends = np.linspace(0, len(ordered), PARTS + 1)
    sums = np.interp(ends, np.arange(len(ordered) + 1), np.concatenate([[0.0], np.cumsum(ordered)]))
    return _rounded((np.diff(sums) / np.diff(ends)).tolist())


def stretches_of(samples: Sequence[float]) -> Series:
    """Stretches of what was measured, one behind the other: of all that there are as many fast as slow ones.

    Args:
        samples: in the order in which they were measured; at least one.
    """
    whole = len(samples) // STRETCH
    if whole <= STRETCHES:
        return _rounded(samples)
    rows = np.asarray(samples[: whole * STRETCH]).reshape(whole, STRETCH)
    middles = ((np.arange(STRETCHES) + 0.5) * whole / STRETCHES).astype(int)
    return _rounded(rows[np.argsort(rows.mean(axis=1), kind="stable")[middles]].reshape(-1).tolist())


class Draws:
    """Values by chance, the same ones for the same seed."""

    def __init__(self, mixture: Sequence[tuple[Series, float]], seed: int, stretch: int = 1) -> None:
        """Draw.

        Args:
            mixture: of series, each with its share of what is drawn.
            seed: of the choices.
            stretch: how many values are taken together.
        """
        series, self._shares = zip(*mixture, strict=True)
        self._series = [np.asarray(one) for one in series]
        self._random, self._steps = np.random.default_rng(seed), np.arange(stretch)
        self._drawn = list[float]()

    def __call__(self) -> float:
        """The next one."""
        if not self._drawn:
            self._drawn = self._more()
        return self._drawn.pop()

    def _more(self) -> list[float]:
        count = _AT_ONCE // len(self._steps)
        chosen = self._random.choice(len(self._series), count, p=self._shares)
        drawn = [
            self._stretch(self._series[one], place)
            for one, place in zip(chosen, self._random.random(count), strict=True)
        ]
        return list(np.concatenate(drawn)[::-1].tolist())

    def _stretch(self, series: Values, place: float) -> Values:
        begin = int(place * max(1, len(series) // len(self._steps))) * len(self._steps)
        taken: Values = series[(begin + self._steps) % len(series)]
        return taken


def _rounded(values: Sequence[float]) -> Series:
    return tuple(float(f"{value:.{_DIGITS}g}") for value in values)
