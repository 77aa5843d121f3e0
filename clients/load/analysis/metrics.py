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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clients.load.analysis.intervals import intervals
from clients.load.analysis.percentiles import Distribution, distribution
from clients.load.analysis.rates import rates
from clients.load.analysis.samples import gaps, samples
from clients.load.analysis.slo import Objective
from clients.load.analysis.steady import SteadyWindow
from clients.load.record import LoadRun, RequestOutcome

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
        objectives: that goodput counts by.
    """
    inside = [one for one in run.records if window.begins_s <= one.scheduled_s <= window.ends_s]
    found, with_intervals = samples(inside), {*WITH_INTERVALS, *(one.metric for one in objectives)}
    columns = {key: (getattr(found, key), SECONDS) for key in _LATENCIES}
    columns |= {"inter_chunk_latency": (gaps(inside), SECONDS)}
    columns |= {key: (getattr(found, key), unit) for key, unit in _LENGTHS.items()}
    made: dict[str, Metric] = {}
    for key, (values, unit) in columns.items():
        values = values[~np.isnan(values)]
        if (spread := distribution(np.maximum(values, 0.0))) is not None:
            sure = intervals(values) if key in with_intervals else {}
            made[key] = Metric(unit=unit, avg=spread.avg, distribution=spread, intervals=sure)
    for key, rate in rates(run.records, window, objectives).items():
        made[key] = Metric(unit=rate.unit, avg=rate.value, intervals={"avg": rate.intervals} if rate.intervals else {})
    counts = {outcome: sum(one.outcome is outcome for one in inside) for outcome in RequestOutcome}
    wrong = counts[RequestOutcome.ERROR] + counts[RequestOutcome.WRONG]
    made |= {
        "request_count": _plain("requests", counts[RequestOutcome.OK]),
        "error_request_count": _plain("requests", wrong),
        "cancelled_request_count": _plain("requests", counts[RequestOutcome.CANCELLED]),
        "deadline_exceeded_request_count": _plain("requests", counts[RequestOutcome.DEADLINE_EXCEEDED]),
        "benchmark_duration": _plain(SECONDS, window.seconds),
    }
    if run.server is not None and run.server.requests:
        made["queue_time"] = _plain(SECONDS, run.server.queue_s / run.server.requests)
        made["compute_time"] = _plain(SECONDS, run.server.compute_s / run.server.requests)
    offline = distribution(np.asarray(run.in_process_s, dtype=np.float64))
    if offline is not None and len(found):
        # Of medians: a mean would also count the time in a queue, which has nothing to do with being served.
        served = float(np.median(found.request_latency))
        made["in_process_latency"] = Metric(unit=SECONDS, avg=offline.avg, distribution=offline, intervals={})
        made["serving_overhead"] = _plain(SECONDS, served - offline.percentiles[50.0])
    return made


def _plain(unit: str, value: float) -> Metric:
    return Metric(unit=unit, avg=value, intervals={})
