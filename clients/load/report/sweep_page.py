"""A sweep as one page of HTML: the curves, every level, and the answer."""

from __future__ import annotations

import json
from pathlib import Path

from attendant.errors import OutputError
from attendant.markup import Markup, safe, table
from clients.load.analysis.search import Search
from clients.load.analysis.slo import limits_on
from clients.load.report.curve import PANELS, curve, throughput_of
from clients.load.report.page_parts import details, page, section, tiles
from clients.load.report.sweep_rows import columns, conclusion, heads, row
from clients.load.report.titles import rate_text, value_text
from clients.load.sweep import UNITS, Load

_FOOT = (
    "Each level is a run of its own, with its own warm-up and steady window. A level passes if its run is valid and "
    "keeps every objective; latencies count from the intended time. Made by <code>attendant load sweep</code>."
)


def write_sweep(search: Search, load: Load, path: Path) -> None:
    """Write the page.

    Raises:
        OutputError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(sweep_page(search, load), encoding="utf-8")
    except OSError as error:
        raise OutputError(f"a place to write the page at {path}", str(error), "choose another --html") from error


def sweep_page(search: Search, load: Load) -> str:
    """The page's HTML."""
    first = search.steps[0].summary.run
    name = str(first.scenario.get("name", "load"))
    kept = [one.objective for one in search.steps[0].summary.objectives]
    panels = [key for key in PANELS if any(key in step.summary.metrics for step in search.steps)]
    drawn = [curve(search.steps, key, limits_on(key, kept), wide=key == panels[0]) for key in panels]
    shown = columns(search, ("p50", "p95"))
    whole = table(
        "one run a level", heads(shown, load), [row(step, shown) for step in search.steps], range(1, len(shown) + 1)
    )
    whole_scenario = Markup(f"<pre>{safe(json.dumps(first.scenario, indent=2))}</pre>")
    scenario = details("The scenario of the lowest level", whole_scenario)
    origin = (
        f'<div class="card wide"><h3>Command</h3><pre>{safe(first.command)}</pre>{scenario}</div>'
        f'<div class="card wide origin">{table("environment", ("", ""), list(first.environment.items()))}</div>'
    )
    body = (
        f"<header><h1>{safe(name)}</h1><p class='quiet'>{len(search.steps)} levels of {safe(UNITS[load])}</p></header>"
        f"{_answer(search, load, bool(kept))}{_headline(search)}"
        + section("Latency over throughput", "".join(card for card in drawn if card))
        + section("Levels", f'<div class="card wide">{whole}</div>')
        + section("How it was measured", origin)
    )
    return page(f"{name}: load sweep", body, _FOOT)


def _answer(search: Search, load: Load, asked: bool) -> str:
    found = not asked or search.highest is not None
    told = conclusion(search, load, asked)
    sign = "✓" if found else "✗"
    return f'<div class="verdict {"valid" if found else "invalid"}" role="status"><h2>{sign} {safe(told)}.</h2></div>'


def _headline(search: Search) -> Markup:
    valid = [step for step in search.steps if step.summary.verdict.valid]
    if not valid:
        return Markup("")
    most = max(valid, key=lambda step: throughput_of(step)[0])
    rate, unit = throughput_of(most)
    shown = {"Most that came back": (f"{rate_text(rate)} {unit}", f"at {most.level:.4g}, of valid runs")}
    at, where = (
        search.highest or valid[0],
        "at the highest load that keeps them" if search.highest else "at the lowest load",
    )
    for key, name in PANELS.items():
        if key in at.summary.metrics:
            metric = at.summary.metrics[key]
            shown[f"{name}, p95"] = value_text(metric, "p95"), where
    return tiles(shown)
