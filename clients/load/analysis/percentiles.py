"""What values are spread like: moments and percentiles, exact, as every value is in memory."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RANKS = (1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9)
BEYOND = 10
"""A percentile with fewer samples beyond it than this is hearsay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """How values are spread, in their own unit.

    Attributes:
        count: of values.
        total: their sum.
        avg: their mean.
        min: the least.
        max: the greatest.
        std: standard deviation of the population.
        percentiles: rank in percent → value.
    """

    count: int
    total: float
    avg: float
    min: float
    max: float
    std: float
    percentiles: dict[float, float]

    def supports(self, rank: float) -> bool:
        """Whether enough values lie beyond a percentile to speak of it."""
        return self.count * min(rank, 100 - rank) / 100 >= BEYOND


def distribution(values: NDArray[np.float64]) -> Distribution | None:
    """Spread of values; None of no values. Between two values a percentile is interpolated, as NumPy does."""
    if not len(values):
        return None
    percentiles = np.percentile(values, RANKS).tolist()
    return Distribution(
        count=len(values),
        total=float(values.sum()),
        avg=float(values.mean()),
        min=float(values.min()),
        max=float(values.max()),
        std=float(values.std()),
        percentiles=dict(zip(RANKS, percentiles, strict=True)),
    )
