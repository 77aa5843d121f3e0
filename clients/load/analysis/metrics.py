"""The figures of a run, under the names that AIPerf gives them.

    time_to_first_token     sent → first response            request_latency          sent → last response
    time_to_second_token    first response → second          effective_latency        scheduled → last response
    inter_token_latency     first response → last, a token   credit_to_start_latency  scheduled → sent: the send lag
    inter_chunk_latency     one response → the next          queue_time               before a model took it
    goodput                 requests a second that keep every objective, each by itself

Latencies are of requests that were meant to be sent in the steady window; rates count what came back in it, whenever
that was sent, so that neither filling nor emptying the server biases them.

Source: AIPerf 0.13.0, metrics/types and metrics/derived_latency.py (github.com/ai-dynamo/aiperf).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clients.load.analysis.intervals import intervals
from clients.load.analysis.percentiles import Distribution, distribution
from clients.load.analysis.rates import SlicedRate, rates
from clients.load.analysis.samples import Samples, gaps, samples
from clients.load.analysis.slo import Objective
from clients.load.analysis.steady import SteadyWindow
from clients.load.record import LoadRun, RequestOutcome, RequestRecord, ServerCounts

SECONDS = "s"
_LATENCIES = (
    *("time_to_first_token", "effective_time_to_first_token", "time_to_second_token", "inter_token_latency"),
    *("request_latency", "effective_latency", "credit_to_start_latency"),
)
_LENGTHS = {"output_sequence_length": "tokens", "input_sequence_length": "tokens"}
WITH_INTERVALS = (*_LATENCIES[:2], "inter_token_latency", "request_latency", "effective_latency")
"""Latencies that intervals are computed of, besides those that have objectives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One figure.

    Attributes:
        unit: seconds, or what is counted.
        avg: the mean, or the figure itself where there is only one.
        distribution: of the requests; None where there is only one figure.
        intervals: statistic → 95 % interval.
    """

    unit: str
    avg: float
    distribution: Distribution | None = None
    intervals: dict[str, tuple[float, float]]

    def value(self, statistic: str) -> float:
        """Mean, extreme or percentile, named as ``avg``, ``max``, ``p95``."""
        if statistic == "avg" or self.distribution is None:
            return self.avg
        if statistic in ("min", "max", "std"):
            return float(getattr(self.distribution, statistic))
        return self.distribution.percentiles[float(statistic.removeprefix("p"))]


def metrics(run: LoadRun, window: SteadyWindow, objectives: Sequence[Objective] = ()) -> dict[str, Metric]:
    """Every figure that the records allow, by its key.

    Args:
        run: what was noted.
        window: the part of the run that counts.
        objectives: objectives that goodput counts by.
    """
    inside = [one for one in run.records if window.begins_s <= one.scheduled_s <= window.ends_s]
    found, surely = samples(inside), {*WITH_INTERVALS, *(one.metric for one in objectives)}
    spread = {key: _spread(getattr(found, key), SECONDS, key in surely) for key in _LATENCIES}
    spread["inter_chunk_latency"] = _spread(gaps(inside), SECONDS, False)
    spread |= {key: _spread(getattr(found, key), unit, False) for key, unit in _LENGTHS.items()}
    whole = {key: _rate(rate) for key, rate in rates(run.records, window, objectives).items()}
    present = {key: one for key, one in spread.items() if one is not None}
    return present | whole | _counts(inside, window) | _server(run.server) | _overhead(found, run.in_process_s)


def _spread(values: NDArray[np.float64], unit: str, surely: bool) -> Metric | None:
    values = values[~np.isnan(values)]
    found = distribution(np.maximum(values, 0.0))
    if found is None:
        return None
    return Metric(unit=unit, avg=found.avg, distribution=found, intervals=intervals(values) if surely else {})


def _rate(rate: SlicedRate) -> Metric:
    return Metric(unit=rate.unit, avg=rate.value, intervals={"avg": rate.intervals} if rate.intervals else {})


def _plain(unit: str, value: float) -> Metric:
    return Metric(unit=unit, avg=value, intervals={})


def _counts(inside: Sequence[RequestRecord], window: SteadyWindow) -> dict[str, Metric]:
    by = {outcome: sum(one.outcome is outcome for one in inside) for outcome in RequestOutcome}
    wrong = by[RequestOutcome.ERROR] + by[RequestOutcome.WRONG]
    return {
        "request_count": _plain("requests", by[RequestOutcome.OK]),
        "error_request_count": _plain("requests", wrong),
        "cancelled_request_count": _plain("requests", by[RequestOutcome.CANCELLED]),
        "deadline_exceeded_request_count": _plain("requests", by[RequestOutcome.DEADLINE_EXCEEDED]),
        "benchmark_duration": _plain(SECONDS, window.seconds),
    }


def _server(server: ServerCounts | None) -> dict[str, Metric]:
    if server is None or not server.requests:
        return {}
    return {
        "queue_time": _plain(SECONDS, server.queue_s / server.requests),
        "compute_time": _plain(SECONDS, server.compute_s / server.requests),
    }


def _overhead(found: Samples, in_process_s: Sequence[float]) -> dict[str, Metric]:
    # Of medians: a mean would also count what waiting in line costs, which has nothing to do with being served.
    alone = distribution(np.asarray(in_process_s, dtype=np.float64))
    if alone is None or not len(found):
        return {}
    served = float(np.median(found.request_latency))
    return {
        "in_process_latency": Metric(unit=SECONDS, avg=alone.avg, distribution=alone, intervals={}),
        "serving_overhead": _plain(SECONDS, served - alone.percentiles[50.0]),
    }
