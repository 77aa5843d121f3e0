"""A summary as tables on a terminal."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from attendant.printable import printable
from clients.load.analysis.metrics import Metric
from clients.load.analysis.summary import ObjectiveResult, Summary
from clients.load.report.titles import (
    LATENCIES,
    RATES,
    SINGLE,
    STATISTICS,
    interval_text,
    range_text,
    time_text,
    value_text,
)

_WIDE = 110
_FEW = ("p50", "p95", "p99", "max")


def print_report(summary: Summary, console: Console | None = None, exploratory: bool = False) -> None:
    """Print the report.

    Args:
        summary: of a run.
        console: where to; standard output if not given.
        exploratory: whether its user knows that an invalid run's figures are not fit to be quoted.
    """
    console = console or Console()
    validity = summary.validity
    colour, verdict = "green", "VALID"
    if not validity.valid and exploratory:
        colour, verdict = "yellow", "EXPLORATORY: for a look, not to be quoted"
    elif not validity.valid:
        colour, verdict = "red", "INVALID: do not quote these figures; --exploratory accepts them for a look"
    lines = [f"[bold {colour}]{verdict}[/]"]
    lines += [f"[{colour}]✗[/] {_shown(reason.message)}" for reason in validity.reasons]
    lines += [f"[dim]· {_shown(remark)}[/]" for remark in validity.remarks]
    name = _shown(str(summary.run.scenario.get("name", "load")))
    console.print(Panel("\n".join(lines), title=name, title_align="left", border_style=colour))
    shown = STATISTICS if console.width >= _WIDE else _FEW
    window = f"second {summary.window.begins_s:.1f} to {summary.window.ends_s:.1f} of {summary.run.duration_s:.1f}"
    count = summary.metrics["request_count"].avg
    console.print(_latencies(f"Latencies of {count:,.0f} requests, {window}", summary.metrics, shown))
    for name, found in summary.by_workload.items():
        console.print(_latencies(f"Of {_shown(name)} only", found, shown))
    console.print(_rates(summary.metrics))
    if summary.objectives:
        console.print(_objectives(summary.objectives))


def _shown(text: str) -> str:
    return escape(printable(text))


def _latencies(title: str, found: dict[str, Metric], shown: Sequence[str]) -> Table:
    table = _table(title)
    table.add_column("", no_wrap=True)
    for statistic in shown:
        table.add_column(statistic, justify="right", no_wrap=True)
    for key, name in LATENCIES.items():
        if key in found:
            table.add_row(name, *(value_text(found[key], statistic) for statistic in shown))
    return table


def _rates(found: dict[str, Metric]) -> Table:
    table = _table("In a second, and on the way")
    table.add_column("", no_wrap=True)
    for column in ("", "95 % interval"):
        table.add_column(column, justify="right", no_wrap=True)
    for key, name in (RATES | SINGLE).items():
        if key in found:
            table.add_row(name, value_text(found[key]), interval_text(found[key]))
    if "serving_overhead" not in found:
        table.add_row(SINGLE["serving_overhead"], "not measured", "")
    return table


def _objectives(objectives: tuple[ObjectiveResult, ...]) -> Table:
    table = _table("Objectives")
    for column in ("", "found", "95 % interval", ""):
        table.add_column(column, justify="left" if not column else "right", no_wrap=True)
    for one in objectives:
        found = "no such figure" if one.found_s is None else time_text(one.found_s)
        table.add_row(
            one.objective.text, found, range_text(one.intervals), "[green]met[/]" if one.met else "[red]missed[/]"
        )
    return table


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
