"""Two runs side by side, as a table and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from clients.load.analysis.comparison import MetricComparison
from clients.load.report.titles import LATENCIES, RATES, rate_text, time_text

_NAMES = RATES | LATENCIES | {"effective_time_to_first_token": "Time to first token", "effective_latency": "Latency"}


def print_comparison(
    found: Sequence[MetricComparison], tolerance: float, differences: Sequence[str], console: Console | None = None
) -> None:
    """Print every figure of both runs, their ratio, and what it means.

    Args:
        found: what was compared.
        tolerance: what may be lost, as a share.
        differences: between the two scenarios.
        console: where to; standard output if not given.
    """
    console = console or Console()
    for line in differences:
        console.print(f"the scenarios differ in {escape(line)}", style="yellow")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in ("", "first", "second", "ratio", "interval"):
        table.add_column(head, justify="right" if head else "left", no_wrap=True)
    table.add_column("")
    for one in found:
        write = time_text if one.lower_is_better else rate_text
        name = f"{_NAMES[one.metric]} {one.statistic}" if one.lower_is_better else f"{_NAMES[one.metric]}/s"
        table.add_row(
            *(name, write(one.first), write(one.second), f"{one.ratio:.3f}", f"{one.low:.3f} … {one.high:.3f}"),
            f"[{_COLOURS[word]}]{word}[/]" if (word := _word(one, tolerance)) else "",
        )
    console.print(table)
    worse = [one for one in found if one.worse(tolerance)]
    console.print(
        f"worse by more than {tolerance:.0%}: {len(worse)} of {len(found)} figures"
        if worse
        else (f"no figure is surely worse by more than {tolerance:.0%}"),
        style="bold",
        markup=False,
        highlight=False,
    )


def comparison_json(found: Sequence[MetricComparison], tolerance: float, differences: Sequence[str]) -> dict[str, Any]:
    """The same in plain values; seconds and rates."""
    return {
        "tolerance": tolerance,
        "worse": any(one.worse(tolerance) for one in found),
        "scenarios_differ_in": list(differences),
        "figures": [asdict(one) | {"verdict": _word(one, tolerance) or "alike"} for one in found],
    }


_COLOURS = {"worse": "bold red", "better": "green", "within tolerance": "yellow"}


def _word(one: MetricComparison, tolerance: float) -> str:
    if not one.differs:
        return ""
    if one.worse(tolerance):
        return "worse"
    return "better" if (one.ratio < 1) is one.lower_is_better else "within tolerance"
