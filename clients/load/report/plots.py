"""The plots of a page as plain values, which ``templates/plots.js`` draws in the browser."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clients.load.analysis.samples import samples
from clients.load.analysis.search import SweepStep
from clients.load.analysis.slo import Objective, limits_on
from clients.load.analysis.summary import Summary
from clients.load.record import RequestOutcome
from clients.load.report.titles import PANELS, rate_text, throughput_of, time_text

Values = NDArray[np.float64]
Plot = dict[str, Any]
_SCHEDULED, _SENT = "from the scheduled time", "from the time it was sent"
_MARKS = {
    RequestOutcome.OK: ("dots", "s0", "answered"),
    RequestOutcome.CANCELLED: ("dots", "cancelled", "cancelled"),
    RequestOutcome.DEADLINE_EXCEEDED: ("dots", "late", "deadline exceeded"),
    RequestOutcome.ERROR: ("cross", "error", "error"),
    RequestOutcome.WRONG: ("cross", "wrong", "wrong answer"),
}
_BINS, _SLICES, _DOTS = 48, 120, 1500
_SHOWN = 99.5  # percent of the values of a histogram; the few beyond would flatten it


def run_plots(summary: Summary) -> list[Plot]:
    """Every plot that the records of a run allow."""
    window = summary.window
    inside = samples(one for one in summary.run.records if window.begins_s <= one.scheduled_s <= window.ends_s)
    objectives = [one.objective for one in summary.objectives]
    plots: list[Plot] = []
    if len(inside):
        first = inside.effective_time_to_first_token[~np.isnan(inside.effective_time_to_first_token)]
        between = inside.inter_token_latency[~np.isnan(inside.inter_token_latency)]
        series = {_SCHEDULED: inside.effective_latency, _SENT: inside.request_latency}
        limits = limits_on("effective_latency", objectives)
        plots.append(_plot_percentiles(series, limits, wide=bool(len(first)) and bool(len(between))))
        if len(first):
            note, limits = (
                "From the scheduled time to the first response.",
                limits_on("effective_time_to_first_token", objectives),
            )
            plots.append(_plot_histogram("Time to first token", note, first, limits))
        else:
            note = "From the scheduled time to the last response."
            plots.append(_plot_histogram("Latency", note, inside.effective_latency, limits))
        if len(between):
            note = "From the first response to the last, a token; one figure a request."
            limits = limits_on("inter_token_latency", objectives)
            plots.append(_plot_histogram("Inter-token latency", note, between, limits, "s2"))
    return [*plots, _plot_timeline(summary), _plot_throughput(summary)] if summary.run.records else plots


def sweep_plots(steps: Sequence[SweepStep], objectives: Sequence[Objective]) -> list[Plot]:
    """One latency over throughput each; a level whose run is invalid is crossed out."""
    metrics = [metric for metric in PANELS if any(metric in step.summary.metrics for step in steps)]
    return [_plot_curve(steps, metric, limits_on(metric, objectives), metric == metrics[0]) for metric in metrics]


def _plot_curve(steps: Sequence[SweepStep], metric: str, limits: Sequence[Objective], wide: bool) -> Plot:
    shown = [step for step in steps if metric in step.summary.metrics]
    rates, unit = [throughput_of(step)[0] for step in shown], throughput_of(shown[0])[1]
    layers: list[dict[str, Any]] = []
    heights, last = [limit.limit_s for limit in limits], []
    for style, statistic in (("s0", "p50"), ("s2", "p95"), ("s1", "p99")):
        values = [step.summary.metrics[metric].value(statistic) for step in shown]
        points = _round(zip(rates, values, strict=True))
        valid = [point for step, point in zip(shown, points, strict=True) if step.summary.validity.valid]
        layers += [
            {"mark": "line", "style": style, "name": statistic, "points": points},
            {"mark": "points", "style": style, "points": valid},
            {"mark": "cross", "style": "error", "points": [point for point in points if point not in valid]},
        ]
        heights += values
        last.append(f"{statistic} {time_text(values[-1])}")
    return {
        "title": PANELS[metric],
        "note": f"Over {unit} that came back, a point a level.",
        "wide": wide,
        "height": 340 if wide else 290,
        "label": f"{PANELS[metric]} over {unit}; at the last of {len(shown)} levels: {', '.join(last)}",
        "legend": [
            ("line", "s0", "p50"),
            ("line", "s2", "p95"),
            ("line", "s1", "p99"),
            ("cross", "error", "invalid run"),
        ],
        "x": _axis("linear", 0.0, max(rates) * 1.05 or 1.0, "count", unit),
        "y": _axis("log", max(min(heights) * 0.8, 1e-6), max(heights) * 1.25, "latency", "latency"),
        "layers": layers,
        "rules": _limits(limits, "y"),
    }


def _plot_percentiles(series: Mapping[str, Values], limits: Sequence[Objective], wide: bool) -> Plot:
    count = max(len(values) for values in series.values())
    highest = min(99.999, 100 * (1 - 1 / max(count, 20)))  # a percentile needs a sample beyond it
    ranks = [100 * (1 - 10 ** (-step / 40)) for step in range(math.ceil(-math.log10(1 - highest / 100) * 40) + 1)]
    least, most = (end(float(end(values)) for values in series.values()) for end in (min, max))
    parts = [
        f"{name}: " + ", ".join(f"p{rank} {time_text(float(np.percentile(values, rank)))}" for rank in (50, 95, 99))
        for name, values in series.items()
    ]
    layers = [
        {
            "mark": "line",
            "style": f"s{number}",
            "name": name,
            "points": _round(zip(ranks, np.percentile(values, ranks).tolist(), strict=True)),
        }
        for number, (name, values) in enumerate(series.items())
    ]
    return {
        "title": "Latency by percentile",
        "note": "The cumulative distribution, its tail drawn out. Where the lines part, the generator sent late.",
        "wide": wide,
        "label": "Latency by percentile. " + "; ".join(parts),
        "legend": [("line", layer["style"], layer["name"]) for layer in layers],
        "x": _axis("tail", 0.0, highest, "percent", "share of the requests that were faster"),
        "y": _axis("log", max(least * 0.9, 1e-6), max(most, 2e-6) * 1.1, "latency", "latency"),
        "layers": layers,
        "rules": _limits(limits, "y"),
    }


def _plot_histogram(title: str, note: str, values: Values, limits: Sequence[Objective], style: str = "s0") -> Plot:
    low, high = float(values.min()), float(np.percentile(values, _SHOWN))
    high = max([high, *(1.05 * limit.limit_s for limit in limits if low <= limit.limit_s <= 2 * high)])
    low = 0.0 if low < high / 3 else low
    high = high if high > low else low + 1e-6
    counts, edges = np.histogram(values[values <= high], bins=_BINS, range=(low, high))
    marks = {f"p{rank}": float(np.percentile(values, rank)) for rank in (50, 95, 99)}
    text = [f"{name} {time_text(at)}" for name, at in marks.items()]
    points = _round(zip(((edges[1:] + edges[:-1]) / 2).tolist(), counts.tolist(), strict=True))
    return {
        "title": title,
        "note": note,
        "height": 270,
        "label": f"Histogram of {title.lower()} of {len(values):,} requests: {', '.join(text)}",
        "x": _axis("linear", low, high, "latency", title.lower()),
        "y": _axis("linear", 0.0, float(counts.max()) * 1.08, "count", "requests"),
        "layers": [{"mark": "bars", "style": style, "name": "requests", "points": points}],
        "rules": [
            *(
                {"axis": "x", "at": at, "text": name, "style": ""}
                for at, name in zip(marks.values(), text, strict=True)
            ),
            *(rule for rule in _limits(limits, "x") if rule["at"] <= high),
        ],
    }


def _plot_timeline(summary: Summary) -> Plot:
    records, duration_s = summary.run.records, summary.run.duration_s
    latencies = [max(one.ended_s - one.scheduled_s, 1e-6) for one in records]
    layers, legend, counts = [], [], []
    for outcome, (mark, style, name) in _MARKS.items():
        points = [
            (one.scheduled_s, latency)
            for one, latency in zip(records, latencies, strict=True)
            if one.outcome is outcome
        ]
        if points:
            legend.append((mark, style, name))
            counts.append(f"{len(points):,} {outcome.value}")
            kept = _thin(points) if outcome in (RequestOutcome.OK, RequestOutcome.CANCELLED) else points
            layers.append({"mark": mark, "style": style, "points": _round(kept)})
        if points and outcome is RequestOutcome.OK:
            layers.append({"mark": "none", "style": "", "name": "slowest", "points": _round(_slowest(points))})
    window, count = summary.window, ", ".join(counts)
    return _over_time(summary, 300) | {
        "title": "Every request",
        "note": f"By its scheduled time: {count}. Shaded: outside the steady window, and in no figure.",
        "label": f"Latency of each request over the {duration_s:.0f} s of the run: {count}",
        "legend": legend,
        "y": _axis(
            "log",
            min(latencies) * 0.8,
            max(max(latencies) * 1.25, min(latencies) * 2),
            "latency",
            "latency from the scheduled time",
        ),
        "layers": layers,
        "rules": [{"axis": "x", "at": window.begins_s, "text": "steady from here", "style": "quiet"}]
        if window.begins_s > 0.02 * duration_s
        else [],
    }


def _plot_throughput(summary: Summary) -> Plot:
    read = [one for one in summary.run.records if one.outcome in (RequestOutcome.OK, RequestOutcome.CANCELLED)]
    weights = [float(count) for one in read for count in one.tokens]
    at_s, unit = [at for one in read for at in one.responses_s], "tokens/s"
    if not sum(weights):
        weights, at_s, unit = [1.0] * len(read), [one.ended_s for one in read], "requests/s"
    duration_s = summary.run.duration_s
    counts, edges = np.histogram(at_s, bins=_SLICES, range=(0.0, duration_s), weights=weights)
    rates = counts / (duration_s / _SLICES)
    points = _round(zip(((edges[1:] + edges[:-1]) / 2).tolist(), rates.tolist(), strict=True))
    return _over_time(summary, 190) | {
        "title": "What came back",
        "note": f"{unit.capitalize()} over the run.",
        "label": f"{unit} over the run, {rate_text(float(rates.mean()))} on average",
        "y": _axis("linear", 0.0, float(rates.max()) * 1.1 or 1.0, "count", unit),
        "layers": [
            {"mark": "area", "style": "s2", "points": points},
            {"mark": "line", "style": "s2", "name": unit, "points": points},
        ],
    }


def _over_time(summary: Summary, height: int) -> Plot:
    duration_s, window = summary.run.duration_s, summary.window
    return {
        "wide": True,
        "height": height,
        "x": _axis("linear", 0.0, duration_s, "seconds", "time of the run"),
        "shades": [(0.0, window.begins_s), (window.ends_s, duration_s)],
    }


def _axis(scale: str, low: float, high: float, unit: str, name: str) -> dict[str, Any]:
    return {"scale": scale, "low": low, "high": high, "unit": unit, "name": name}


def _limits(limits: Iterable[Objective], axis: str) -> list[dict[str, Any]]:
    return [{"axis": axis, "at": limit.limit_s, "text": limit.text, "style": "limit"} for limit in limits]


def _round(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(float(f"{x:.5g}"), float(f"{y:.4g}")) for x, y in points]


def _slowest(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    span, slowest = max(at for at, _ in points) or 1.0, dict[int, tuple[float, float]]()
    for at, latency in points:
        moment = int(at / span * _SLICES)
        slowest[moment] = max(slowest.get(moment, (at, latency)), (at, latency), key=lambda point: point[1])
    return sorted(slowest.values())


def _thin(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    # The slowest of each moment stay, and a sample of the others: what is left out lies among dots.
    return points if len(points) <= _DOTS else sorted({*points[:: -(-len(points) // _DOTS)], *_slowest(points)})
