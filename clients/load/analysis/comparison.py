"""Two runs side by side: ratios of their figures, each with an interval, and whether the second is worse.

    r        second / first                      s     standard deviation of ln r over resampled pairs
    interval r · exp(±z s),  z for 1 − 0.05 / 2m where m figures are compared: one false alarm in twenty tables

A figure is worse if its ratio lies beyond the tolerance and its interval does not reach 1. The interval is that of
these two runs: what changes from one start of a server to the next is not in it, and is what the tolerance is for.

Source: block bootstrap as in intervals.py; Bonferroni's correction.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attendant.errors import InputError
from clients.load.analysis.intervals import replicates
from clients.load.analysis.percentiles import BEYOND
from clients.load.analysis.rates import SlicedRate, rates
from clients.load.analysis.samples import LatencySamples, samples
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


def compare(first: Summary, second: Summary) -> tuple[MetricComparison, ...]:
    """Compare what two valid runs have in common.

    Raises:
        InputError: a run is invalid, or there is nothing to compare.
    """
    found, rates_of = list[LatencySamples](), list[dict[str, SlicedRate]]()
    for summary in (first, second):
        window, records = summary.window, summary.run.records
        if not summary.validity.valid:
            reasons = "; ".join(reason.message for reason in summary.validity.reasons)
            raise InputError("two valid runs", f"one of {summary.run.started_at}: {reasons}", "measure it again")
        found.append(samples(one for one in records if window.begins_s <= one.scheduled_s <= window.ends_s))
        rates_of.append(rates(records, window))
    pairs: list[tuple[str, str, list[Values]]] = []
    for metric in LATENCIES:
        values = [getattr(of_run, metric) for of_run in found]
        values = [of_run[~np.isnan(of_run)] for of_run in values]
        fewest = min(map(len, values))
        names = [name for name, rank in _RANKS.items() if fewest >= FEWEST and fewest * (1 - rank / 100) >= BEYOND]
        pairs += [(metric, name, values) for name in names]
    for metric in RATES:
        if all(metric in of_run and of_run[metric].intervals for of_run in rates_of):
            pairs.append((metric, "avg", [of_run[metric].per_slice for of_run in rates_of]))
    if not pairs:
        raise InputError("figures that both runs have", "none", "compare runs of the same scenario")
    z = NormalDist().inv_cdf(1 - ALPHA / (2 * len(pairs)))
    return tuple(_compare_metric(*pair, z) for pair in pairs)


def _compare_metric(metric: str, statistic: str, values: list[Values], z: float) -> MetricComparison:
    rank = _RANKS.get(statistic)
    first, second = (float(of_run.mean() if rank is None else np.percentile(of_run, rank)) for of_run in values)
    logs = [np.log(replicates(of_run, [rank], seed)[:, 0]) for seed, of_run in enumerate(values, 1)]
    spread = math.sqrt(sum(float(of_run.var()) for of_run in logs))
    ratio = second / first
    return MetricComparison(
        metric=metric,
        statistic=statistic,
        first=first,
        second=second,
        ratio=ratio,
        low=ratio * math.exp(-z * spread),
        high=ratio * math.exp(z * spread),
        lower_is_better=metric in LATENCIES,
    )


def differences(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """Where two scenarios differ, key by key."""
    a, b = _flat(first), _flat(second)
    return [f"{key}: {a.get(key, 'none')} → {b.get(key, 'none')}" for key in sorted(a | b) if a.get(key) != b.get(key)]


def _flat(table: Any, prefix: str = "") -> dict[str, Any]:
    entries = table.items() if isinstance(table, dict) else enumerate(table)
    flat: dict[str, Any] = {}
    for key, value in entries:
        name = f"{prefix}{key}"
        flat |= _flat(value, f"{name}.") if isinstance(value, dict | list | tuple) else {name: value}
    return flat
