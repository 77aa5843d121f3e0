"""What varies from one time to the next, drawn in stretches of what was measured, so that trouble comes in clusters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Series = tuple[float, ...]
STRETCH, STRETCHES = 25, 32
_DIGITS = 4
_AT_ONCE = 256


def series_of(samples: Sequence[float]) -> Series:
    """What is kept of what was measured: at most so many stretches, from everywhere.

    Args:
        samples: in the order in which they were measured; at least one.
    """
    count = len(samples) // STRETCH
    if count > STRETCHES:
        kept = np.linspace(0, count - 1, STRETCHES).round().astype(int)
        samples = [value for place in kept for value in samples[STRETCH * place : STRETCH * (place + 1)]]
    return tuple(float(f"{value:.{_DIGITS}g}") for value in samples)


class Draws:
    """Values by chance, the same ones for the same seed."""

    def __init__(self, mixture: Sequence[tuple[Series, float]], seed: int) -> None:
        """Draw.

        Args:
            mixture: of series, each with its share of the stretches.
            seed: of the choices.
        """
        self._series, self._shares = zip(*mixture, strict=True)
        self._random = np.random.default_rng(seed)
        self._drawn = list[float]()

    def __call__(self) -> float:
        """The next one."""
        if not self._drawn:
            self._drawn = self._more()
        return self._drawn.pop()

    def _more(self) -> list[float]:
        chosen = self._random.choice(len(self._series), _AT_ONCE, p=self._shares)
        drawn: list[float] = []
        for number, place in zip(chosen, self._random.random(_AT_ONCE), strict=True):
            series = self._series[number]
            begin = int(place * len(series))
            drawn += [series[(begin + step) % len(series)] for step in range(STRETCH)]
        return drawn[::-1]
