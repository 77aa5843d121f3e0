"""Values → places along an axis, and the ticks that people expect there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Scale(Protocol):
    """An axis from its first place to its last."""

    def place(self, value: float) -> float:
        """Share of the axis, 0 to 1; values beyond its ends are set to them."""
        ...

    def ticks(self, most: int) -> Sequence[float]:
        """Round values along it, about as many as asked."""
        ...


@dataclass(frozen=True, slots=True)
class Linear:
    """Equal steps from one value to another."""

    low: float
    high: float

    def place(self, value: float) -> float:
        """Share of the axis."""
        return min(1.0, max(0.0, (value - self.low) / ((self.high - self.low) or 1.0)))

    def ticks(self, most: int) -> Sequence[float]:
        """Multiples of 1, 2 or 5 times a power of ten."""
        raw = (self.high - self.low) / max(most, 1) or 1.0
        power = 10.0 ** math.floor(math.log10(raw))
        step = power * next(one for one in (1, 2, 5, 10) if one * power >= raw * 0.6)
        first = math.ceil(self.low / step - 1e-9)
        return [number * step for number in range(first, math.floor(self.high / step + 1e-9) + 1)]


@dataclass(frozen=True, slots=True)
class Logarithmic:
    """Equal ratios between two values above 0."""

    low: float
    high: float

    def place(self, value: float) -> float:
        """Share of the axis."""
        whole = math.log(self.high / self.low) or 1.0
        return min(1.0, max(0.0, math.log(max(value, self.low) / self.low) / whole))

    def ticks(self, most: int) -> Sequence[float]:
        """Powers of ten, and 2 and 5 times these where there is room; even steps within less than a decade."""
        if self.high < 8 * self.low:
            return Linear(self.low, self.high).ticks(most)
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for digits in ((1, 2, 5), (1, 3), (1,)):
            found = [digit * 10.0**power for power in range(first, last + 1) for digit in digits]
            found = [one for one in found if self.low * 0.999 <= one <= self.high * 1.001]
            if len(found) <= most + 1:
                break
        return found


@dataclass(frozen=True, slots=True)
class Tail:
    """Percentiles, each nine as wide as the one before: 0, 90, 99, 99.9; the last one is ``high``."""

    high: float

    def place(self, value: float) -> float:
        """Share of the axis."""
        return min(1.0, max(0.0, _nines(value) / _nines(self.high)))

    def ticks(self, most: int) -> Sequence[float]:
        """The percentiles that people speak of."""
        known = (0.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999)
        shown = known if most > 5 else (0.0, 50.0, 90.0, 99.0, 99.9, 99.99)
        return [one for one in shown if one <= self.high]


def _nines(percentile: float) -> float:
    return -math.log10(max(1 - percentile / 100, 1e-9))
