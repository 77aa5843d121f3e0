"""How sure a figure is: intervals by resampling blocks of consecutive requests.

Requests that follow each other share a queue, so that their latencies are alike; an interval that takes them for
independent is several times too narrow. Whole blocks are drawn instead, long enough that their ends hardly know each
other. Batch means would do for a mean, and not for a percentile: blocks do for both.

    f̂(k)   autocovariance at distance k      λ(k)  1 up to half of M, then falling to 0 at M
    Ĝ      Σ λ(k) |k| f̂(k)                    ĝ     Σ λ(k) f̂(k)
    block  (2 Ĝ² / D)^⅓ n^⅓,  D = 4/3 ĝ²

Source: Politis and Romano, A circular block-resampling procedure for stationary data, 1992. Length of a block:
Politis and White, Automatic block-length selection for the dependent bootstrap, 2004, corrected by Patton, Politis and
White, 2009.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
REPLICATES, FEWEST, DRAWN = 400, 100, 10_000_000
"""Series to draw: as many as ``DRAWN`` values make, within the first two."""
SEED = 20261121
STATISTICS: dict[str, float | None] = {"avg": None, "p50": 50.0, "p95": 95.0, "p99": 99.0}
"""What intervals are stated of: the mean, and percentiles by their rank."""


def block_length(values: Values) -> int:
    """How many consecutive values a block needs, at most a third of them."""
    n = len(values)
    most = max(1, n // 3)
    if n < 8 or float(np.ptp(values)) == 0.0:
        return 1
    reach = min(2 * _insignificant_from(values, n), most)
    distance = np.arange(-reach, reach + 1)
    weights = np.clip(2 * (1 - np.abs(distance) / reach), 0.0, 1.0)
    covariance = _autocovariances(values, reach)[np.abs(distance)]
    slope = float(np.sum(weights * np.abs(distance) * covariance))
    power = float(np.sum(weights * covariance))
    if power <= 0.0:
        return most
    return int(min(most, max(1, math.ceil((1.5 * (slope / power) ** 2 * n) ** (1 / 3)))))


def replicates(values: Values, ranks: Sequence[float | None], seed: int = SEED) -> Values:
    """Statistics of resampled series.

    Args:
        values: in the order in which they were seen.
        ranks: percentile in percent, or None for the mean; one column each.
        seed: of the draws; the same values give the same replicates.

    Returns:
        A row for each series that was drawn: 100 to 400, the fewer the longer they are.
    """
    n, length = len(values), block_length(values)
    count = min(REPLICATES, max(FEWEST, DRAWN // n))
    draws, circle = np.random.default_rng(seed), np.concatenate([values, values[: length - 1]])
    within = np.arange(length)
    places = [min(n - 1, max(0, math.ceil(rank / 100 * n) - 1)) for rank in ranks if rank is not None]
    found = np.empty((count, len(ranks)))
    for row in range(count):
        starts = draws.integers(0, n, size=-(-n // length))
        series = circle[(starts[:, None] + within).ravel()[:n]]
        mean = series.mean()
        ordered = np.partition(series, sorted(set(places))) if places else series
        taken = iter(places)
        found[row] = [mean if rank is None else ordered[next(taken)] for rank in ranks]
    return found


def intervals(values: Values, confidence: float = 0.95) -> dict[str, tuple[float, float]]:
    """Percentile intervals of the statistics named in :data:`STATISTICS`; empty below 20 values."""
    if len(values) < 20:
        return {}
    tail = 50 * (1 - confidence)
    low, high = np.percentile(replicates(values, list(STATISTICS.values())), [tail, 100 - tail], axis=0)
    return {name: (float(a), float(b)) for name, a, b in zip(STATISTICS, low, high, strict=True)}


def _autocovariances(values: Values, reach: int) -> Values:
    centred, n = values - values.mean(), len(values)
    padded = np.fft.rfft(centred, 2 * n)
    whole: Values = np.fft.irfft(padded * np.conj(padded), 2 * n)[: reach + 1] / n
    return whole


def _insignificant_from(values: Values, n: int) -> int:
    # The least distance after which five correlations in a row are within the noise of independent values.
    in_a_row = max(5, math.ceil(math.sqrt(math.log10(n))))
    reach = min(n - 1, math.ceil(math.sqrt(n)) + in_a_row)
    covariance = _autocovariances(values, reach)
    small = np.abs(covariance[1:] / covariance[0]) < 2 * math.sqrt(math.log10(n) / n)
    runs = np.convolve(small, np.ones(in_a_row), mode="valid") == in_a_row
    return max(1, int(np.argmax(runs))) if runs.any() else reach
