"""What people call the metrics, in the order in which reports show them, and how their values are written."""

import math

from attendant.quantities import count_text, seconds_text
from clients.load.analysis.metrics import SECONDS, Metric
from clients.load.analysis.search import SweepStep

LATENCIES = {
    "time_to_first_token": "Time to first token",
    "effective_time_to_first_token": "… from the scheduled time",
    "inter_token_latency": "Inter-token latency",
    "inter_chunk_latency": "Between responses",
    "request_latency": "Request latency",
    "effective_latency": "… from the scheduled time",
    "credit_to_start_latency": "Send lag",
    "in_process_latency": "Without a server",
}
RATES = {
    "request_throughput": "Requests",
    "output_token_throughput": "Tokens",
    "image_throughput": "Images",
    "goodput": "Goodput",
}
SINGLE = {"queue_time": "In the server's queue", "serving_overhead": "Added by serving"}
PANELS = {
    "effective_latency": "Latency of a whole answer",
    "effective_time_to_first_token": "Time to first token",
    "inter_token_latency": "Inter-token latency",
}
STATISTICS = ("avg", "p50", "p90", "p95", "p99", "p99.9", "max")


def value_text(metric: Metric, statistic: str = "avg") -> str:
    """A statistic with its unit; one that rests on too few requests has a question mark."""
    value = metric.value(statistic)
    if metric.unit != SECONDS:
        return f"{rate_text(value)} {metric.unit.replace('/sec', '/s')}"
    doubtful = statistic.startswith("p") and not (
        metric.distribution is None or metric.distribution.supports(float(statistic.removeprefix("p")))
    )
    return time_text(value) + (" ?" if doubtful else "")


def interval_text(metric: Metric, statistic: str = "avg") -> str:
    """The 95 % interval; empty where there is none."""
    if statistic not in metric.intervals:
        return ""
    return range_text(metric.intervals[statistic], metric.unit)


def range_text(sure: tuple[float, float] | None, unit: str = SECONDS) -> str:
    """An interval, its unit said once if both ends have it; empty where there is none."""
    if sure is None:
        return ""
    low, high = map(time_text if unit == SECONDS else rate_text, sure)
    number, _, low_unit = low.partition(" ")
    return f"{number if low_unit == high.partition(' ')[2] else low} … {high}"


def throughput_of(step: SweepStep) -> tuple[float, str]:
    """Tokens a second where answers are made of them, else requests a second."""
    found = step.summary.metrics
    key = "output_token_throughput" if "output_token_throughput" in found else "request_throughput"
    return (found[key].avg, found[key].unit.replace("/sec", "/s")) if key in found else (0.0, "requests/s")


def time_text(seconds: float) -> str:
    """A time that may be negative, or none at all."""
    if math.isnan(seconds):
        return "none"
    if abs(seconds) < 5e-7:
        return "0 µs"
    return f"−{seconds_text(-seconds)}" if seconds < 0 else seconds_text(seconds)


def rate_text(value: float) -> str:
    """A rate, to three digits or to the whole number."""
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}" if value < 1e6 else count_text(value)
