"""A sweep as a table on a terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from clients.load.analysis.search import Search
from clients.load.report.sweep_rows import columns, conclusion, rows
from clients.load.sweep import Load

_WIDE = 150


def print_sweep(search: Search, load: Load, asked: bool, console: Console | None = None) -> None:
    """Print every level and the answer.

    Args:
        search: what was found.
        load: what was varied.
        asked: whether there were objectives.
        console: where to; standard output if not given.
    """
    console = console or Console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    statistics = ("p50", "p95", "p99") if console.width >= _WIDE else ("p95",)
    for head in columns(search, load, statistics):
        table.add_column(head, justify="right" if head else "left")
    for step, row in zip(search.steps, rows(search, statistics), strict=True):
        table.add_row(*map(escape, row), style="" if step.passes else "red")
    console.print(table)
    console.print(conclusion(search, load, asked), style="bold", markup=False, highlight=False)
