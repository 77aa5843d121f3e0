"""Plots of how latencies are spread: by percentile, and as histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attendant.markup import Markup
from clients.load.analysis.slo import Objective
from clients.load.report.scales import Linear, Logarithmic, Tail
from clients.load.report.svg import Frame, plot
from clients.load.report.titles import tick_text, time_text

Values = NDArray[np.float64]
_BINS = 48
_SHOWN = 0.995  # of the values; the few beyond are told in words


def by_percentile(series: dict[str, Values], kept: Sequence[Objective] = (), width: float = 560) -> Markup:
    """Latency by percentile, with the tail drawn out: where a line leaves the other, requests were sent late.

    Args:
        series: name → seconds; the first is drawn over the others.
        kept: objectives on these latencies, drawn as limits.
        width: in pixels, where there is room.
    """
    least = min(float(values.min()) for values in series.values())
    most = max(float(values.max()) for values in series.values())
    count = max(len(values) for values in series.values())
    # A percentile needs a sample beyond it.
    highest = min(99.999, 100 * (1 - 1 / max(count, 20)))
    y, x = Logarithmic(max(least * 0.9, 1e-6), max(most, 2e-6) * 1.1), Tail(highest)
    ranks = [100 * (1 - 10 ** (-step / 40)) for step in range(math.ceil(-math.log10(1 - highest / 100) * 40) + 1)]

    def draw(frame: Frame) -> None:
        frame.axes(lambda rank: f"{rank:g} %", tick_text, "share of the requests that were faster", "latency")
        lines = {
            name: [(rank, float(np.percentile(values, rank))) for rank in ranks] for name, values in series.items()
        }
        for number, points in reversed(list(enumerate(lines.values()))):
            frame.line(f"s{number}", points)
        for name, points in lines.items():
            frame.tell(name, [(rank, took, f"{rank:.4g} %: {time_text(took)}") for rank, took in points[::2]])
        for objective in kept:
            frame.level("limit", objective.limit_s, objective.text)

    return plot(_told(series), x, y, draw, width)


def histogram(name: str, values: Values, kept: Sequence[Objective] = (), colour: str = "s0") -> Markup:
    """How many requests took how long, with the percentiles that people ask for."""
    low, high = float(values.min()), float(np.percentile(values, 100 * _SHOWN))
    limits = [one.limit_s for one in kept if low <= one.limit_s <= 2 * high]
    high = max([high, *(1.05 * limit for limit in limits)])
    low = 0.0 if low < high / 3 else low
    high = high if high > low else low + 1e-6
    counts, edges = np.histogram(values[values <= high], bins=_BINS, range=(low, high))
    marks = {f"p{rank}": float(np.percentile(values, rank)) for rank in (50, 95, 99)}

    def draw(frame: Frame) -> None:
        frame.axes(tick_text, lambda count: f"{count:,.0f}", name, "requests")
        frame.bars(colour, edges.tolist(), counts.tolist())
        middles = (edges[1:] + edges[:-1]) / 2
        told = [
            (float(at), float(count), f"{time_text(at)}: {count:,}") for at, count in zip(middles, counts, strict=True)
        ]
        frame.tell("requests", told)
        for row, (mark, at) in enumerate(marks.items()):
            frame.upright("mark", at, f"{mark} {time_text(at)}", row)
        for row, objective in enumerate(kept, len(marks)):
            if objective.limit_s <= high:
                frame.upright("limit", objective.limit_s, objective.text, row)

    told = ", ".join(f"{mark} {time_text(at)}" for mark, at in marks.items())
    y = Linear(0.0, float(counts.max()) * 1.08)
    return plot(f"Histogram of {name} of {len(values):,} requests: {told}", Linear(low, high), y, draw, height=270)


def _told(series: dict[str, Values]) -> str:
    parts = [
        f"{name}: " + ", ".join(f"p{rank} {time_text(float(np.percentile(values, rank)))}" for rank in (50, 95, 99))
        for name, values in series.items()
    ]
    return "Latency by percentile. " + "; ".join(parts)
