"""Plots over the time of a run: every request by its outcome, and what came back in each moment."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attendant.markup import Markup
from clients.load.analysis.steady import Window
from clients.load.record import Outcome, RequestRecord
from clients.load.report.scales import Linear, Logarithmic
from clients.load.report.svg import Frame, Point, plot
from clients.load.report.titles import rate_text, tick_text, time_text

WIDE = 1120.0
_DOTS = 1500
_SLICES = 120
FAILED = {Outcome.ERROR: "error", Outcome.WRONG: "wrong"}


def timeline(records: tuple[RequestRecord, ...], window: Window, duration_s: float) -> Markup:
    """Each request at its intended time: how long it took, and what became of it.

    Of many, the slowest of each moment are drawn and a sample of the others: what is left out lies among dots.
    """
    took = np.array([max(one.ended_s - one.intended_s, 1e-6) for one in records])
    y = Logarithmic(float(took.min()) * 0.8, max(float(took.max()) * 1.25, float(took.min()) * 2))
    shown = {outcome: _points(records, outcome, took) for outcome in Outcome}

    def draw(frame: Frame) -> None:
        frame.shade("left-out", 0.0, window.begins_s)
        frame.shade("left-out", window.ends_s, duration_s)
        frame.axes(lambda at: f"{at:g} s", tick_text, "time of the run", "latency from the intended time")
        frame.dots("s0", _thinned(shown[Outcome.OK]))
        frame.dots("cancelled", _thinned(shown[Outcome.CANCELLED]))
        frame.dots("late", shown[Outcome.LATE])
        for outcome, kind in FAILED.items():
            frame.crosses(kind, shown[outcome])
        told = [(at, took, f"{time_text(took)} at {at:.1f} s") for at, took in _slowest(shown[Outcome.OK])]
        frame.tell("slowest", told)
        if window.begins_s > 0.02 * duration_s:
            frame.upright("quiet", window.begins_s, "steady from here")

    counts = ", ".join(f"{len(points):,} {outcome.value}" for outcome, points in shown.items() if points)
    told = f"Latency of each request over the {duration_s:.0f} s of the run: {counts}"
    return plot(told, Linear(0.0, duration_s), y, draw, WIDE)


def throughput(
    at_s: NDArray[np.float64], weights: NDArray[np.float64], unit: str, window: Window, duration_s: float
) -> Markup:
    """What came back a second, over the time of a run.

    Args:
        at_s: when something came.
        weights: how much each time.
        unit: of the rate.
        window: the part of the run that counts.
        duration_s: of the run.
    """
    counts, edges = np.histogram(at_s, bins=_SLICES, range=(0.0, duration_s), weights=weights)
    rates, middles = counts / (duration_s / _SLICES), (edges[1:] + edges[:-1]) / 2
    points = [(float(at), float(rate)) for at, rate in zip(middles, rates, strict=True)]

    def draw(frame: Frame) -> None:
        frame.shade("left-out", 0.0, window.begins_s)
        frame.shade("left-out", window.ends_s, duration_s)
        frame.axes(lambda at: f"{at:g} s", rate_text, "time of the run", unit)
        frame.area("s2", points, 0.0)
        frame.line("s2", points)
        frame.tell(unit, [(at, rate, f"{rate_text(rate)} {unit} at {at:.1f} s") for at, rate in points])

    y = Linear(0.0, float(rates.max()) * 1.1 or 1.0)
    mean = float(rates.mean())
    return plot(f"{unit} over the run, {rate_text(mean)} on average", Linear(0.0, duration_s), y, draw, WIDE, 190)


def _points(records: tuple[RequestRecord, ...], outcome: Outcome, took: NDArray[np.float64]) -> list[Point]:
    return [(one.intended_s, float(s)) for one, s in zip(records, took, strict=True) if one.outcome is outcome]


def _slowest(points: list[Point]) -> list[Point]:
    moments: dict[int, Point] = {}
    if points:
        span = max(at for at, _ in points) or 1.0
        for at, took in points:
            moment = int(at / span * _SLICES)
            moments[moment] = max(moments.get(moment, (at, took)), (at, took), key=lambda one: one[1])
    return sorted(moments.values())


def _thinned(points: list[Point]) -> list[Point]:
    return points if len(points) <= _DOTS else sorted({*points[:: -(-len(points) // _DOTS)], *_slowest(points)})
