"""Latency over throughput: where a server bends, and where an objective is crossed."""

from __future__ import annotations

from collections.abc import Sequence

from attendant.markup import Markup
from clients.load.analysis.search import Step
from clients.load.analysis.slo import Objective
from clients.load.report.page_parts import figure, legend
from clients.load.report.scales import Linear, Logarithmic
from clients.load.report.svg import Frame, Point, plot
from clients.load.report.time_chart import WIDE
from clients.load.report.titles import rate_text, tick_text, time_text

_LINES = {"s0": "p50", "s2": "p95", "s1": "p99"}
PANELS = {
    "effective_latency": "Latency of a whole answer",
    "effective_time_to_first_token": "Time to first token",
    "inter_token_latency": "Inter-token latency",
}


def throughput_of(step: Step) -> tuple[float, str]:
    """Tokens a second where answers are made of them, else requests a second."""
    found = step.summary.metrics
    key = "output_token_throughput" if "output_token_throughput" in found else "request_throughput"
    return (found[key].avg, found[key].unit.replace("/sec", "/s")) if key in found else (0.0, "requests/s")


def curve(steps: Sequence[Step], metric: str, kept: Sequence[Objective], wide: bool) -> Markup | None:
    """One latency over throughput; levels whose run is invalid are crossed out. None if no level has the figure."""
    shown = [step for step in steps if metric in step.summary.metrics]
    if not shown:
        return None
    lines = {kind: (name, [_point(step, metric, name) for step in shown]) for kind, name in _LINES.items()}
    heights = [y for _, points in lines.values() for _, y in points] + [objective.limit_s for objective in kept]
    most, unit = max(throughput_of(step)[0] for step in shown), throughput_of(shown[0])[1]
    y = Logarithmic(max(min(heights) * 0.8, 1e-6), max(heights) * 1.25)

    def draw(frame: Frame) -> None:
        frame.axes(rate_text, tick_text, unit, "latency")
        for kind, (name, points) in lines.items():
            frame.line(kind, points)
            frame.points(kind, [point for step, point in zip(shown, points, strict=True) if step.summary.verdict.valid])
            frame.crosses("error", [p for step, p in zip(shown, points, strict=True) if not step.summary.verdict.valid])
            told = [
                f"{time_text(up)} at {rate_text(at)} {unit}, level {s.level:.4g}"
                for s, (at, up) in zip(shown, points, strict=True)
            ]
            frame.tell(name, [(at, up, text) for (at, up), text in zip(points, told, strict=True)])
        for objective in kept:
            frame.level("limit", objective.limit_s, objective.text)

    last = ", ".join(f"{name} {time_text(points[-1][1])}" for name, points in lines.values())
    told = f"{PANELS[metric]} over {unit}; at the last of {len(shown)} levels: {last}"
    drawn = plot(told, Linear(0.0, most * 1.05 or 1.0), y, draw, WIDE if wide else WIDE / 2, 340 if wide else 290)
    key = legend(_LINES | {"cross error": "invalid run"})
    return figure(PANELS[metric], f"Over {unit} that came back, a point a level.", drawn, key, wide)


def _point(step: Step, metric: str, statistic: str) -> Point:
    return throughput_of(step)[0], step.summary.metrics[metric].value(statistic)
