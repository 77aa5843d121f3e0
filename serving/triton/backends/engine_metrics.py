"""An engine's counts as Triton's own metrics, on the port where Prometheus reads them.

Times are reported as the buckets of a Prometheus histogram, each a counter: one call for many times, where Triton's own
histogram costs a call to the server for each token.

A metric is never given up. Where a model is loaded in place of itself, both workers have the same: tritonserver 2.51
keeps one of each name and labels, and frees it as the first of them gives it up, under the other's hands.
"""

import ctypes
from itertools import accumulate
from typing import Any

from serving.engine.engine_process import Ready
from serving.engine.meter import BOUNDS_S, COUNTERS, ENDINGS, GAUGES, PREFIX, REQUESTS, SIZES, TIMES, Histogram, Meter
from serving.triton.backends import triton_api


class EngineMetrics:
    """Reports to Triton what the engines of a model, one after the other, have counted since the last report."""

    def __init__(self, ready: Ready, model: str) -> None:
        """Register the metrics.

        Args:
            ready: what the engine says of itself.
            model: its name, the label of each metric.
        """
        self._reported: dict[str, float] = {}
        self._starts = 0
        self._labels = {"model": model}
        self._metrics: dict[str, Any] = {}
        ended = triton_api.counters(PREFIX + REQUESTS[0], REQUESTS[1])
        for name, reason in ENDINGS.items():
            self._add(name, ended, finished_reason=reason)
        for name, (metric, meaning) in COUNTERS.items():
            self._add(name, triton_api.counters(PREFIX + metric, meaning))
        for name, (metric, meaning) in GAUGES.items():
            self._add(name, triton_api.gauges(PREFIX + metric, meaning))
        for name, (metric, meaning) in TIMES.items():
            stem = PREFIX + metric
            buckets = triton_api.counters(f"{stem}_bucket", meaning)
            for bound in (*map(str, BOUNDS_S), "+Inf"):
                self._add(f"{name}:{bound}", buckets, le=bound)
            self._add(f"{name}:sum", triton_api.counters(f"{stem}_sum", f"sum of the {meaning}"))
            self._add(f"{name}:count", triton_api.counters(f"{stem}_count", f"number of the {meaning}"))
        for name, (metric, meaning) in SIZES.items():
            self._add(name, triton_api.gauges(PREFIX + metric, meaning))
            self._metrics[name].set(getattr(ready, name))

    def update(self, meter: Meter, starts: int) -> None:
        """Bring Triton's metrics up to date; what has not changed costs nothing.

        Args:
            meter: of the present engine.
            starts: how many engines there were: each counts from 0.
        """
        if starts != self._starts:
            self._reported = {name: value for name, value in self._reported.items() if name in GAUGES}
            self._starts = starts
        for name in (*ENDINGS, *COUNTERS):
            self._count(name, getattr(meter, name))
        for name in GAUGES:  # after the counters: a request that is no longer running is already counted
            if self._reported.get(name) != (value := getattr(meter, name)):
                self._metrics[name].set(value)
                self._reported[name] = value
        for name in TIMES:
            for series, value in _series(name, getattr(meter, name)).items():
                self._count(series, value)

    def _count(self, name: str, value: float) -> None:
        new = value - self._reported.get(name, 0)
        if new > 0:
            self._metrics[name].increment(new)
            self._reported[name] = value

    def _add(self, name: str, family: Any, **labels: str) -> None:
        self._metrics[name] = _kept(_kept(family).Metric(labels={**self._labels, **labels}))


def _kept(one: Any) -> Any:
    """The same with one reference too many: given up as Python ends, it would end Triton's stub with a fault."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))
    return one


def _series(name: str, histogram: Histogram) -> dict[str, float]:
    cumulative = list(accumulate(histogram.counts))
    series: dict[str, float] = {
        f"{name}:{bound}": count for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), cumulative, strict=True)
    }
    return {**series, f"{name}:sum": histogram.total_s, f"{name}:count": cumulative[-1]}
