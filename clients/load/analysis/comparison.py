"""Two runs side by side: ratios of their figures, each with an interval, and whether the second is worse.

    r        second / first                      s     standard deviation of ln r over resampled pairs
    interval r · exp(±z s),  z for 1 − 0.05 / 2m where m figures are compared: one false alarm in twenty tables

A figure is worse if its ratio lies beyond the tolerance and its interval does not reach 1. The interval is that of
these two runs: what changes from one start of a server to the next is not in it, and is what the tolerance is for.

Source: block bootstrap as in intervals.py; Bonferroni's correction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attendant.errors import InputError
from clients.load.analysis.intervals import replicates
from clients.load.analysis.percentiles import BEYOND
from clients.load.analysis.rates import rates
from clients.load.analysis.samples import samples
from clients.load.analysis.summary import Summary

ALPHA = 0.05
FEWEST = 40
LATENCIES = ("effective_time_to_first_token", "inter_token_latency", "effective_latency")
RATES = ("request_throughput", "output_token_throughput", "image_throughput")
_RANKS = {"p50": 50.0, "p95": 95.0, "p99": 99.0}
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricComparison:
    """One figure of two runs.

    Attributes:
        metric: its key.
        statistic: ``avg`` or a percentile.
        first: of the first run, seconds or a rate.
        second: of the second.
        ratio: second / first.
        low: lower end of its interval.
        high: upper end.
        lower_is_better: whether a ratio below 1 is good.
    """

    metric: str
    statistic: str
    first: float
    second: float
    ratio: float
    low: float
    high: float
    lower_is_better: bool

    @property
    def differs(self) -> bool:
        """Whether the interval leaves 1 out."""
        return self.low > 1 or self.high < 1

    def worse(self, tolerance: float) -> bool:
        """Whether it is surely worse, and by more than the tolerance."""
        slower = self.ratio if self.lower_is_better else 1 / self.ratio
        return self.differs and slower > 1 + tolerance


@dataclass(frozen=True, slots=True)
class _Pair:
    metric: str
    statistic: str
    rank: float | None
    first: Values
    second: Values


def compare(first: Summary, second: Summary) -> tuple[MetricComparison, ...]:
    """Compare what two valid runs have in common.

    Raises:
        InputError: a run is invalid, or there is nothing to compare.
    """
    for summary in (first, second):
        if not summary.validity.valid:
            told = "; ".join(reason.message for reason in summary.validity.reasons)
            raise InputError("two valid runs", f"one of {summary.run.started_at}: {told}", "measure it again")
    pairs = [*_latencies(first, second), *_rates(first, second)]
    if not pairs:
        raise InputError("figures that both runs have", "none", "compare runs of the same scenario")
    z = NormalDist().inv_cdf(1 - ALPHA / (2 * len(pairs)))
    return tuple(_compared(pair, z) for pair in pairs)


def differences(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """Where two scenarios differ, key by key."""
    a, b = _flat(first), _flat(second)
    return [f"{key}: {a.get(key, 'none')} → {b.get(key, 'none')}" for key in sorted(a | b) if a.get(key) != b.get(key)]


def _latencies(first: Summary, second: Summary) -> Iterator[_Pair]:
    for metric in LATENCIES:
        a, b = (_values(summary, metric) for summary in (first, second))
        fewest = min(len(a), len(b))
        for name, rank in _RANKS.items():
            if fewest >= FEWEST and fewest * (1 - rank / 100) >= BEYOND:
                yield _Pair(metric, name, rank, a, b)


def _values(summary: Summary, metric: str) -> Values:
    window = summary.window
    inside = samples(one for one in summary.run.records if window.begins_s <= one.scheduled_s <= window.ends_s)
    values: Values = getattr(inside, metric)
    return values[~np.isnan(values)]


def _rates(first: Summary, second: Summary) -> Iterator[_Pair]:
    a, b = (rates(summary.run.records, summary.window) for summary in (first, second))
    for metric in RATES:
        if metric in a and metric in b and a[metric].intervals and b[metric].intervals:
            yield _Pair(metric, "avg", None, a[metric].per_slice, b[metric].per_slice)


def _compared(pair: _Pair, z: float) -> MetricComparison:
    first, second = (_statistic(values, pair.rank) for values in (pair.first, pair.second))
    drawn = [
        np.log(replicates(values, [pair.rank], seed)[:, 0]) for seed, values in enumerate((pair.first, pair.second), 1)
    ]
    spread = math.sqrt(sum(float(logs.var()) for logs in drawn))
    ratio = second / first
    return MetricComparison(
        metric=pair.metric,
        statistic=pair.statistic,
        first=first,
        second=second,
        ratio=ratio,
        low=ratio * math.exp(-z * spread),
        high=ratio * math.exp(z * spread),
        lower_is_better=pair.metric in LATENCIES,
    )


def _statistic(values: Values, rank: float | None) -> float:
    return float(values.mean()) if rank is None else float(np.percentile(values, rank))


def _flat(table: Any, prefix: str = "") -> dict[str, Any]:
    entries = table.items() if isinstance(table, dict) else enumerate(table)
    flat: dict[str, Any] = {}
    for key, value in entries:
        name = f"{prefix}{key}"
        flat |= _flat(value, f"{name}.") if isinstance(value, dict | list | tuple) else {name: value}
    return flat
