"""How often a time fell into which bucket, counted in this process and told to a server now and then."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass(slots=True)
class Histogram:
    """Times in seconds.

    Attributes:
        counts: for each bucket of :data:`BOUNDS_S`, and one more for what is longer, how many times.
        total_s: their sum.
    """

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    total_s: float = 0.0

    def add(self, seconds: float) -> None:
        """Count a time."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.total_s += seconds
