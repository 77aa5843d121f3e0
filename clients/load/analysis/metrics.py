"""The figures of a run, under the names that AIPerf gives them.

    time_to_first_token     sent → first response            request_latency          sent → last response
    time_to_second_token    first response → second          effective_latency        intended → last response
    inter_token_latency     first response → last, a token   credit_to_start_latency  intended → sent: the send lag
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
from clients.load.analysis.rates import OfSlices, rates
from clients.load.analysis.samples import Samples, gaps, samples
from clients.load.analysis.slo import Objective
from clients.load.analysis.steady import Window
from clients.load.record import LoadRun, Outcome, RequestRecord, ServerCounts

SECONDS = "s"
_LATENCIES = (
    *("time_to_first_token", "effective_time_to_first_token", "time_to_second_token", "inter_token_latency"),
    *("request_latency", "effective_latency", "credit_to_start_latency"),
)
_LENGTHS = {"output_sequence_length": "tokens", "input_sequence_length": "tokens"}
SURE_OF = (*_LATENCIES[:2], "inter_token_latency", "request_latency", "effective_latency")
"""Latencies that intervals are computed of, besides those that have objectives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One figure.

    Attributes:
        unit: seconds, or what is counted.
        avg: the mean, or the figure itself where there is only one.
        spread: of the requests; None where there is only one figure.
        sure: statistic → 95 % interval.
    """

    unit: str
    avg: float
    spread: Distribution | None = None
    sure: dict[str, tuple[float, float]]

    def value(self, statistic: str) -> float:
        """Mean, extreme or percentile, named as ``avg``, ``max``, ``p95``."""
        if statistic == "avg" or self.spread is None:
            return self.avg
        if statistic in ("min", "max", "std"):
            return float(getattr(self.spread, statistic))
        return self.spread.percentiles[float(statistic.removeprefix("p"))]


def metrics(run: LoadRun, window: Window, kept: Sequence[Objective] = ()) -> dict[str, Metric]:
    """Every figure that the records allow, by its key.

    Args:
        run: what was noted.
        window: the part of the run that counts.
        kept: objectives that goodput counts by.
    """
    inside = [one for one in run.records if window.begins_s <= one.intended_s <= window.ends_s]
    found, surely = samples(inside), {*SURE_OF, *(one.metric for one in kept)}
    spread = {key: _spread(getattr(found, key), SECONDS, key in surely) for key in _LATENCIES}
    spread["inter_chunk_latency"] = _spread(gaps(inside), SECONDS, False)
    spread |= {key: _spread(getattr(found, key), unit, False) for key, unit in _LENGTHS.items()}
    whole = {key: _rate(rate) for key, rate in rates(run.records, window, kept).items()}
    present = {key: one for key, one in spread.items() if one is not None}
    return present | whole | _counts(inside, window) | _server(run.server) | _overhead(found, run.in_process_s)


def _spread(values: NDArray[np.float64], unit: str, surely: bool) -> Metric | None:
    values = values[~np.isnan(values)]
    found = distribution(np.maximum(values, 0.0))
    if found is None:
        return None
    return Metric(unit=unit, avg=found.avg, spread=found, sure=intervals(values) if surely else {})


def _rate(rate: OfSlices) -> Metric:
    return Metric(unit=rate.unit, avg=rate.value, sure={"avg": rate.sure} if rate.sure else {})


def _plain(unit: str, value: float) -> Metric:
    return Metric(unit=unit, avg=value, sure={})


def _counts(inside: Sequence[RequestRecord], window: Window) -> dict[str, Metric]:
    by = {outcome: sum(one.outcome is outcome for one in inside) for outcome in Outcome}
    wrong = by[Outcome.ERROR] + by[Outcome.WRONG]
    return {
        "request_count": _plain("requests", by[Outcome.OK]),
        "error_request_count": _plain("requests", wrong),
        "cancelled_request_count": _plain("requests", by[Outcome.CANCELLED]),
        "late_request_count": _plain("requests", by[Outcome.LATE]),
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
        "in_process_latency": Metric(unit=SECONDS, avg=alone.avg, spread=alone, sure={}),
        "serving_overhead": _plain(SECONDS, served - alone.percentiles[50.0]),
    }
