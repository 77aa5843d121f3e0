"""A sweep as a table on a terminal."""

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from clients.load.analysis.search import SweepResult
from clients.load.report.sweep_rows import causes, columns, conclusion, heads, row
from clients.load.sweep import SweptLoad

_WIDE = 150
_STATISTICS = ("p50", "p95", "p99")
_FEW = ("output_token_throughput", "image_throughput")


def print_sweep(search: SweepResult, load: SweptLoad, has_objectives: bool, console: Console | None = None) -> None:
    """Print every level and the answer.

    Args:
        search: what was found.
        load: what was varied.
        has_objectives: whether there were objectives.
        console: where to; standard output if not given.
    """
    console = console or Console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    wide = console.width >= _WIDE
    shown = columns(search, _STATISTICS) if wide else columns(search, _STATISTICS[1:2], _FEW)
    for head in heads(shown, load):
        table.add_column(head, justify="right" if head else "left", no_wrap=bool(head))
    for step in search.steps:
        table.add_row(*map(escape, row(step, shown)), style="" if step.passes else "red" if step.fails else "yellow")
    console.print(table)
    for cause in causes(search):
        console.print(f"✗ {cause}", style="dim", markup=False, highlight=False)
    console.print(conclusion(search, load, has_objectives), style="bold", markup=False, highlight=False)
