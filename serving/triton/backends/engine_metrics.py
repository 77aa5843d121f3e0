"""An engine's counts as Triton's own metrics, on the port where Prometheus reads them.

Times are reported as the buckets of a Prometheus histogram, each a counter: one call for many times, where Triton's own
histogram costs a call to the server for each token.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from serving.engine.engine import Engine
from serving.engine.meter import BOUNDS_S, Histogram
from serving.triton.backends import triton_api

_ENDINGS = {
    "finished": "completed",
    "cancelled": "cancelled",
    "rejected": "rejected",
    "deadline_exceeded": "deadline_exceeded",
    "failed": "error",
}
"""Count of the meter → how such requests ended, the label ``finished_reason`` of one counter."""
_COUNTERS = {
    "tokens": ("generation_tokens", "tokens of answers"),
    "prompt_tokens": ("prompt_tokens", "tokens of prompts"),
    "prefix_tokens": ("prefix_cache_hit_tokens", "tokens of prompts that the prefix cache held"),
    "drafted": ("spec_decode_num_draft_tokens", "tokens that prompt lookup proposed"),
    "accepted": ("spec_decode_num_accepted_tokens", "proposed tokens that were right"),
    "steps": ("decode_steps", "runs of the decoder for new tokens"),
}
_GAUGES = {
    "active": (
        "num_requests_running",
        "sequences that are prefilled or decoded; a request of several answers has as many",
    ),
    "waiting": ("num_requests_waiting", "requests in the queue"),
    "cache_usage": ("kv_cache_usage_ratio", "share of the KV cache's positions that hold a token"),
}
_SIZES = {
    "slots": ("max_num_seqs", "sequences that are decoded at once"),
    "cache_bytes": ("kv_cache_bytes", "memory of the KV cache"),
}
_TIMES = {
    "first_token_s": ("time_to_first_token_seconds", "seconds from a request's arrival to its first token"),
    "between_tokens_s": ("inter_token_latency_seconds", "seconds between two tokens of a request"),
    "queue_s": ("request_queue_time_seconds", "seconds from a request's arrival to its prefill"),
    "e2e_s": ("e2e_request_latency_seconds", "seconds from a request's arrival to its last token"),
}


class EngineMetrics:
    """Reports to Triton what an engine has counted since the last report."""

    def __init__(self, engine: Engine, model: str) -> None:
        """Register the metrics.

        Args:
            engine: that counts.
            model: its name, the label of each metric.
        """
        self._meter = engine.meter
        self._reported: dict[str, float] = {}
        self._labels = {"model": model}
        self._families: list[Any] = []
        self._metrics: dict[str, Any] = {}
        ended = triton_api.counters("attendant_requests_total", "requests that ended, by how")
        for name, reason in _ENDINGS.items():
            self._add(name, ended, finished_reason=reason)
        for name, (metric, meaning) in _COUNTERS.items():
            self._add(name, triton_api.counters(f"attendant_{metric}_total", meaning))
        for name, (metric, meaning) in _GAUGES.items():
            self._add(name, triton_api.gauges(f"attendant_{metric}", meaning))
        for name, (metric, meaning) in _TIMES.items():
            stem = f"attendant_{metric}"
            buckets = triton_api.counters(f"{stem}_bucket", meaning)
            for bound in (*map(str, BOUNDS_S), "+Inf"):
                self._add(f"{name}:{bound}", buckets, le=bound)
            self._add(f"{name}:sum", triton_api.counters(f"{stem}_sum", f"sum of the {meaning}"))
            self._add(f"{name}:count", triton_api.counters(f"{stem}_count", f"number of the {meaning}"))
        for name, (metric, meaning) in _SIZES.items():
            self._add(name, triton_api.gauges(f"attendant_{metric}", meaning))
            self._metrics[name].set(getattr(engine, name))

    def update(self) -> None:
        """Bring Triton's metrics up to date; what has not changed costs nothing."""
        # Read before the counters and set after them: a request that is no longer running is already counted.
        gauges = {name: getattr(self._meter, name) for name in _GAUGES}
        for name in (*_ENDINGS, *_COUNTERS):
            self._count(name, getattr(self._meter, name))
        for name, value in gauges.items():
            if self._reported.get(name) != value:
                self._metrics[name].set(value)
                self._reported[name] = value
        for name in _TIMES:
            for series, value in _series(name, getattr(self._meter, name)).items():
                self._count(series, value)

    def _count(self, name: str, value: float) -> None:
        new = value - self._reported.get(name, 0)
        if new:
            self._metrics[name].increment(new)
            self._reported[name] = value

    def _add(self, name: str, family: Any, **labels: str) -> None:
        self._families.append(family)
        self._metrics[name] = family.Metric(labels={**self._labels, **labels})


def _series(name: str, histogram: Histogram) -> dict[str, float]:
    cumulative = list(accumulate(histogram.counts))
    series: dict[str, float] = {
        f"{name}:{bound}": count for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), cumulative, strict=True)
    }
    return {**series, f"{name}:sum": histogram.total_s, f"{name}:count": cumulative[-1]}
