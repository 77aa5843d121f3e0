"""A summary as one page of HTML that needs nothing but itself: no network, no library, light and dark."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from attendant.errors import OutputError
from attendant.markup import Markup, code, safe, table
from clients.load.analysis.metrics import Metric
from clients.load.analysis.summary import Met, Summary
from clients.load.record import Outcome
from clients.load.report.charts import charts
from clients.load.report.page_parts import details, page, section, tiles, verdict_box
from clients.load.report.titles import LATENCIES, RATES, SINGLE, STATISTICS, span_text, sure_text, time_text, value_text


def write_report(summary: Summary, path: Path) -> None:
    """Write the page.

    Raises:
        OutputError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(report(summary), encoding="utf-8")
    except OSError as error:
        raise OutputError(f"a place to write the page at {path}", str(error), "choose another --html") from error


def report(summary: Summary) -> str:
    """The page's HTML."""
    run = summary.run
    name = str(run.scenario.get("name", "load"))
    parts = {"Latency": charts(summary), "Figures": _tables(summary), "How it was measured": _origin(summary)}
    body = (
        f"<header><h1>{safe(name)}</h1><p class='quiet'>{safe(_when(summary))}</p></header>"
        f"{verdict_box(summary.verdict)}{tiles(_headline(summary))}{_objectives(summary.objectives)}"
        + "".join(section(title, held) for title, held in parts.items())
    )
    return page(f"{name}: load test", body, _FOOT)


_HEADLINES = {
    "effective_time_to_first_token": "First token",
    "inter_token_latency": "Between tokens",
    "effective_latency": "Whole answer",
}
_FOOT = (
    "Percentiles are exact. Intervals: 95 %, by resampling blocks of consecutive requests "
    "(Politis and Romano). Steady state: MSER-5 on ranks (White and others). A figure with a question mark has fewer "
    "than ten requests beyond it. Made by <code>attendant load</code>."
)


def _when(summary: Summary) -> str:
    run = summary.run
    began = run.started_at[:19].replace("T", " ")
    return " · ".join(part for part in (f"{began} UTC", _arrivals(run.scenario), f"{run.duration_s:.1f} s") if part)


def _arrivals(scenario: dict[str, object]) -> str:
    arrivals = scenario.get("arrivals")
    if not isinstance(arrivals, dict):
        return ""
    rest = [f"{key.replace('_', ' ')} {_plain(value)}" for key, value in arrivals.items() if key != "kind"]
    return ", ".join([str(arrivals.get("kind", "")), *rest])


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _headline(summary: Summary) -> dict[str, tuple[str, str]]:
    found, shown = summary.metrics, {}
    for key, name in RATES.items():
        if key in found:
            shown[name] = value_text(found[key]), sure_text(found[key])
    for key, name in _HEADLINES.items():
        if key in found:
            p50, p95, p99 = (value_text(found[key], one) for one in ("p50", "p95", "p99"))
            shown[f"{name}, p95"] = p95, f"p50 {p50} · p99 {p99}"
    overhead = found.get("serving_overhead")
    share = "" if overhead is None else f"on top of {value_text(found['in_process_latency'], 'p50')} without a server"
    shown["Added by serving"] = ("not measured", "") if overhead is None else (value_text(overhead), share)
    wrong = sum(one.outcome in (Outcome.ERROR, Outcome.WRONG) for one in summary.run.records)
    shown["Errors and wrong answers"] = f"{wrong:,}", f"of {len(summary.run.records):,} requests"
    return shown


def _objectives(objectives: tuple[Met, ...]) -> str:
    if not objectives:
        return ""
    rows = []
    for one in objectives:
        found = "no such figure" if one.found_s is None else time_text(one.found_s)
        word = Markup('<span class="good">✓ met</span>' if one.met else '<span class="bad">✗ missed</span>')
        rows.append((code(one.objective.text), word, found, span_text(one.sure)))
    held = table("each limit, and what was found", ("objective", "", "found", "95 % interval"), rows, (2, 3))
    return section("Objectives", f'<div class="card wide">{held}</div>')


def _tables(summary: Summary) -> str:
    cards = [f'<div class="card wide">{_latencies("all requests of the steady window", summary.metrics)}</div>']
    cards += [
        f'<div class="card wide">{_latencies(f"of {name} alone", found)}</div>'
        for name, found in summary.by_workload.items()
    ]
    rows = [
        (name, value_text(summary.metrics[key]), sure_text(summary.metrics[key]))
        for key, name in (RATES | SINGLE).items()
        if key in summary.metrics
    ]
    rates = table("rates, and what the server adds", ("", "found", "95 % interval"), rows, (1, 2))
    return "".join([*cards, f'<div class="card">{rates}</div>', _watch(summary)])


def _latencies(caption: str, found: dict[str, Metric]) -> Markup:
    rows = [
        (name, *(value_text(found[key], one) for one in STATISTICS)) for key, name in LATENCIES.items() if key in found
    ]
    return table(caption, ("", *STATISTICS), rows, range(1, len(STATISTICS) + 1))


def _watch(summary: Summary) -> str:
    watch, window = summary.run.watch, summary.window
    lags = watch.loop_lags_s
    rows = [
        ("generator's processor", f"{watch.cpu_share:.0%} of a core"),
        ("machine", f"{watch.machine_share:.0%} busy"),
        ("event loop late, p99", time_text(float(np.percentile(lags, 99))) if lags else "not sampled"),
        ("steady window", f"{window.begins_s:.1f} … {window.ends_s:.1f} s of {summary.run.duration_s:.1f} s"),
    ]
    return f'<div class="card">{table("the generator itself", ("", "found"), rows, (1,))}</div>'


def _origin(summary: Summary) -> str:
    run = summary.run
    rows = [(name, value) for name, value in run.environment.items()]
    scenario = details("The scenario, as it was read", Markup(f"<pre>{safe(json.dumps(run.scenario, indent=2))}</pre>"))
    return (
        f'<div class="card wide"><h3>Command</h3><pre>{safe(run.command)}</pre>{scenario}</div>'
        f'<div class="card wide origin">{table("environment", ("", ""), rows)}</div>'
    )
