"""A sweep as rows, the same for a terminal and a page, and as JSON."""

from collections.abc import Iterable
from typing import Any

from clients.load.analysis.search import SweepResult, SweepStep
from clients.load.analysis.validity import Fault
from clients.load.report.summary_json import plain
from clients.load.report.titles import PANELS, rate_text, value_text
from clients.load.sweep import UNITS, SweptLoad

_LEVELS = {"rate": "offered/s", "concurrency": "at once"}
_RATES = {
    "request_throughput": "req/s",
    "output_token_throughput": "tok/s",
    "image_throughput": "img/s",
    "goodput": "good/s",
}
_LATENCIES = {"effective_latency": "answer", "effective_time_to_first_token": "first", "inter_token_latency": "between"}
Columns = tuple[tuple[str, str], ...]
"""Metric and statistic of each column; a rate has no statistic."""


def columns(search: SweepResult, statistics: Iterable[str], rates: Iterable[str] = tuple(_RATES)) -> Columns:
    """What there is to show, of the rates and statistics to be shown."""
    there = {key for step in search.steps for key in step.summary.metrics}
    shown = [(key, "") for key in rates if key in there]
    return (*shown, *((key, one) for key in PANELS if key in there for one in statistics))


def heads(shown: Columns, load: SweptLoad) -> list[str]:
    """Headings: the level, the columns, and what to think of it."""
    names = [f"{_LATENCIES[key]} {statistic}" if statistic else _RATES[key] for key, statistic in shown]
    return [_LEVELS[load], *names, ""]


def row(step: SweepStep, shown: Columns) -> list[str]:
    found = step.summary.metrics
    cells = [
        "none" if key not in found else value_text(found[key], statistic) if statistic else rate_text(found[key].avg)
        for key, statistic in shown
    ]
    return [f"{step.level:.4g}", *cells, verdict_text(step)]


def verdict_text(step: SweepStep) -> str:
    """Whether a level is valid and keeps the objectives."""
    reasons = step.summary.validity.reasons
    faults = dict.fromkeys(one.problem if one.fault is Fault.FEW else one.fault.value for one in reasons)
    missed = [one.objective.text for one in step.summary.objectives if not one.met]
    return "; ".join([*(f"✗ {fault}" for fault in faults), *(f"✗ {text}" for text in missed)]) or "✓"


def conclusion(search: SweepResult, load: SweptLoad, has_objectives: bool) -> str:
    """What the sweep found, in one sentence."""
    if not has_objectives:
        return search.ended
    best = search.highest
    if search.interrupted:
        found = "none yet" if best is None else f"{best.level:.4g} {UNITS[load]} so far"
        return f"highest load that keeps the objectives: {found} ({search.ended})"
    if best is None and not any(step.fails for step in search.steps):
        return search.ended
    if best is None:
        return f"no level keeps the objectives: {search.ended}"
    return f"highest load that keeps the objectives: {best.level:.4g} {UNITS[load]} ({search.ended})"


def causes(search: SweepResult) -> list[str]:
    """Why levels are invalid, and what to do: a line for each, behind its level."""
    return [f"at {step.level:.4g} {one.message}" for step in search.steps for one in step.summary.validity.reasons]


def sweep_json(search: SweepResult, load: SweptLoad, has_objectives: bool) -> dict[str, Any]:
    """Every level with its summary."""
    best = search.highest if has_objectives else None
    return {
        "load": load,
        "highest": None if best is None else best.level,
        "ended": search.ended,
        "interrupted": search.interrupted,
        "levels": [{"level": step.level, "passes": step.passes, **plain(step.summary)} for step in search.steps],
    }
