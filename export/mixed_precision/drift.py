"""How far the values of one graph are from those of another.

    drift    mean |z′ − z| / σ over a sample, σ the standard deviation of the reference's values z; of the worst sample

What is not finite in one of both alone, or of another shape, drifts infinitely.
"""

import math
from collections.abc import Iterable, Mapping

import numpy as np

from serving.runtime.base import Array


def drift_of(found: Array, reference: Array) -> float:
    """Of one value in one sample."""
    if found.shape != reference.shape:
        return math.inf
    if reference.dtype.kind != "f":
        return float((found != reference).mean()) if reference.size else 0.0
    new, old = found.astype(np.float64).ravel(), reference.astype(np.float64).ravel()
    finite = np.isfinite(old)
    if not np.array_equal(new[~finite], old[~finite], equal_nan=True) or not np.isfinite(new[finite]).all():
        return math.inf
    new, old = new[finite], old[finite]
    if not old.size:
        return 0.0
    difference = float(np.abs(new - old).mean())
    return difference / spread_of(old) if difference else 0.0


def spread_of(values: Array) -> float:
    """σ of finite values, or their size where all are the same."""
    spread = float(values.std())
    return spread or float(np.abs(values).max()) or 1.0


def worst_drift(found: Iterable[Mapping[str, Array]], reference: Iterable[Mapping[str, Array]]) -> dict[str, float]:
    """For each value the drift of its worst sample."""
    worst: dict[str, float] = {}
    for new, old in zip(found, reference, strict=True):
        for name, values in old.items():
            worst[name] = max(worst.get(name, 0.0), drift_of(new[name], values))
    return worst
