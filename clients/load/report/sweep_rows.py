"""A sweep as rows, the same for a terminal, a page and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clients.load.analysis.search import Search, Step
from clients.load.report.curve import PANELS
from clients.load.report.summary_json import plain
from clients.load.report.titles import RATES, value_text
from clients.load.sweep import UNITS, Load

_SHORT = {
    "effective_latency": "answer",
    "effective_time_to_first_token": "first token",
    "inter_token_latency": "between",
}


def columns(search: Search, load: Load, statistics: Sequence[str]) -> list[str]:
    """Headings: the level, what to think of it, rates, latencies."""
    rates, latencies = _keys(search)
    heads = [f"{_SHORT[key]} {statistic}" for key in latencies for statistic in statistics]
    return [UNITS[load], "", *(f"{RATES[key].lower()}/s" for key in rates), *heads]


def rows(search: Search, statistics: Sequence[str]) -> list[list[str]]:
    """A row a level."""
    return [_row(step, search, statistics) for step in search.steps]


def conclusion(search: Search, load: Load, asked: bool) -> str:
    """What the sweep found, in one sentence."""
    if not asked:
        return search.ended
    best = search.highest
    if best is None:
        return f"no level keeps the objectives: {search.ended}"
    return f"highest load that keeps the objectives: {best.level:.4g} {UNITS[load]} ({search.ended})"


def sweep_json(search: Search, load: Load, asked: bool) -> dict[str, Any]:
    """Every level with its summary."""
    best = search.highest if asked else None
    return {
        "load": load,
        "highest": None if best is None else best.level,
        "ended": search.ended,
        "levels": [{"level": step.level, "passes": step.passes, **plain(step.summary)} for step in search.steps],
    }


def judged(step: Step) -> str:
    """Whether a level is valid and keeps the objectives."""
    faults = dict.fromkeys(reason.fault.value for reason in step.summary.verdict.reasons)
    missed = [one.objective.text for one in step.summary.objectives if not one.met]
    if faults or missed:
        return "; ".join([*(f"invalid: {fault}" for fault in faults), *(f"misses {text}" for text in missed)])
    return "keeps them" if step.summary.objectives else "valid"


def _row(step: Step, search: Search, statistics: Sequence[str]) -> list[str]:
    found, (rates, latencies) = step.summary.metrics, _keys(search)
    cells = [value_text(found[key]).split(" ")[0] if key in found else "none" for key in rates]
    for key in latencies:
        cells += [value_text(found[key], one) if key in found else "none" for one in statistics]
    return [f"{step.level:.4g}", judged(step), *cells]


def _keys(search: Search) -> tuple[list[str], list[str]]:
    there = {key for step in search.steps for key in step.summary.metrics}
    return [key for key in RATES if key in there], [key for key in PANELS if key in there]
