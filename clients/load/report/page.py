"""A run or a sweep as one page of HTML that needs nothing but itself: no network, no library, light and dark."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from attendant.errors import OutputError
from attendant.output_files import write_output
from clients.load.analysis.search import SweepResult
from clients.load.analysis.summary import Summary
from clients.load.record import LoadRun, RequestOutcome
from clients.load.report.plots import run_plots, sweep_plots
from clients.load.report.sweep_rows import causes, columns, conclusion, heads, row
from clients.load.report.titles import (
    LATENCIES,
    PANELS,
    RATES,
    SINGLE,
    STATISTICS,
    interval_text,
    range_text,
    rate_text,
    throughput_of,
    time_text,
    value_text,
)
from clients.load.sweep import UNITS, SweptLoad

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_HEADLINES = {
    "effective_time_to_first_token": "First token",
    "inter_token_latency": "Between tokens",
    "effective_latency": "Whole answer",
}


def write_page(html: str, path: Path) -> None:
    """Write a page.

    Raises:
        OutputError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_output(path, html)
    except OSError as error:
        raise OutputError(f"a place to write the page at {path}", str(error), "choose another --html") from error


def run_page(summary: Summary) -> str:
    run, found = summary.run, summary.metrics
    latencies = {"all requests of the steady window": found}
    latencies |= {f"only {name}": metrics for name, metrics in summary.by_workload.items()}
    return _TEMPLATES.get_template("run.html").render(
        _origin(run),
        subtitle=_subtitle(run),
        validity=summary.validity,
        tiles=_tiles(_run_tiles(summary)),
        objectives=[
            {
                "text": one.objective.text,
                "met": one.met,
                "found": "no such figure" if one.found_s is None else time_text(one.found_s),
                "interval": range_text(one.intervals),
            }
            for one in summary.objectives
        ],
        plots=run_plots(summary),
        statistics=STATISTICS,
        latencies={
            caption: [
                [name, *(value_text(metrics[key], one) for one in STATISTICS)]
                for key, name in LATENCIES.items()
                if key in metrics
            ]
            for caption, metrics in latencies.items()
        },
        rates=[
            (name, value_text(found[key]), interval_text(found[key]))
            for key, name in (RATES | SINGLE).items()
            if key in found
        ],
        generator=_generator_rows(summary),
    )


def sweep_page(result: SweepResult, load: SweptLoad) -> str:
    """The page of a sweep: the curves, every level, and the answer."""
    first = result.steps[0].summary
    objectives = [one.objective for one in first.objectives]
    shown = columns(result, ("p50", "p95"))
    return _TEMPLATES.get_template("sweep.html").render(
        _origin(first.run),
        subtitle=f"{len(result.steps)} levels of {UNITS[load]}",
        conclusion=conclusion(result, load, bool(objectives)),
        passed=not objectives or result.highest is not None,
        tiles=_tiles(_sweep_tiles(result)),
        plots=sweep_plots(result.steps, objectives),
        heads=heads(shown, load),
        rows=[row(step, shown) for step in result.steps],
        causes=causes(result),
    )


def _origin(run: LoadRun) -> dict[str, Any]:
    return {
        "name": str(run.scenario.get("name", "load")),
        "command": run.command,
        "scenario": json.dumps(run.scenario, indent=2),
        "environment": run.environment,
    }


def _subtitle(run: LoadRun) -> str:
    parts = [f"{run.started_at[:19].replace('T', ' ')} UTC"]
    arrivals = run.scenario.get("arrivals")
    if isinstance(arrivals, dict):
        values = {key: f"{value:g}" if isinstance(value, float) else value for key, value in arrivals.items()}
        kind = str(values.pop("kind", ""))
        parts.append(", ".join([kind, *(f"{key.replace('_', ' ')} {value}" for key, value in values.items())]))
    return " · ".join([*parts, f"{run.duration_s:.1f} s"])


def _run_tiles(summary: Summary) -> dict[str, tuple[str, str]]:
    found = summary.metrics
    tiles = {name: (value_text(found[key]), interval_text(found[key])) for key, name in RATES.items() if key in found}
    for key, name in _HEADLINES.items():
        if key in found:
            p50, p95, p99 = (value_text(found[key], one) for one in ("p50", "p95", "p99"))
            tiles[f"{name}, p95"] = p95, f"p50 {p50} · p99 {p99}"
    tiles["Added by serving"] = "not measured", ""
    if "serving_overhead" in found:
        below = f"on top of {value_text(found['in_process_latency'], 'p50')} without a server"
        tiles["Added by serving"] = value_text(found["serving_overhead"]), below
    records = summary.run.records
    wrong = sum(one.outcome in (RequestOutcome.ERROR, RequestOutcome.WRONG) for one in records)
    return tiles | {"Errors and wrong answers": (f"{wrong:,}", f"of {len(records):,} requests")}


def _sweep_tiles(result: SweepResult) -> dict[str, tuple[str, str]]:
    valid = [step for step in result.steps if step.summary.validity.valid]
    if not valid:
        return {}
    most = max(valid, key=lambda step: throughput_of(step)[0])
    rate, unit = throughput_of(most)
    tiles = {"Most that came back": (f"{rate_text(rate)} {unit}", f"at {most.level:.4g}, of valid runs")}
    where = "at the highest load that keeps them" if result.highest else "at the lowest load"
    metrics = (result.highest or valid[0]).summary.metrics
    return tiles | {
        f"{name}, p95": (value_text(metrics[key], "p95"), where) for key, name in PANELS.items() if key in metrics
    }


def _tiles(figures: dict[str, tuple[str, str]]) -> list[dict[str, str]]:
    tiles = []
    for name, (value, below) in figures.items():
        number, _, unit = value.partition(" ")
        is_number = number[:1].isdigit() or number.startswith("−")
        # A line may end between figures, and not between a figure and its unit.
        unbroken = " · ".join(part.replace(" ", "\u00a0") for part in below.split(" · ")) if " · " in below else below
        tiles.append(
            {"name": name, "number": number if is_number else value, "unit": unit * is_number, "below": unbroken}
        )
    return tiles


def _generator_rows(summary: Summary) -> list[tuple[str, str]]:
    usage, window = summary.run.generator, summary.window
    lags = usage.loop_lags_s
    return [
        ("generator's processor", f"{usage.cpu_share:.0%} of a core"),
        ("machine", f"{usage.machine_share:.0%} busy"),
        ("event loop late, p99", time_text(float(np.percentile(lags, 99))) if lags else "not sampled"),
        ("steady window", f"{window.begins_s:.1f} … {window.ends_s:.1f} s of {summary.run.duration_s:.1f} s"),
    ]
