"""The parity ladder as a table for people."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from export.parity.parity import Rung


def print_rungs(name: str, rungs: Iterable[Rung]) -> None:
    """Print one line a graph and runner: cases, largest error, tolerance, verdict, worst case."""
    table = Table(title=f"parity of {name} against eager float64")
    for column, justify in (
        ("graph", "left"),
        ("runner", "left"),
        ("cases", "right"),
        ("max error", "right"),
    ):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for column in ("tolerance", "verdict", "worst case"):
        table.add_column(column)
    for rung in rungs:
        verdict = "[green]ok[/]" if rung.passed else "[red]FAILED[/]"
        figures = (str(rung.cases), f"{rung.worst.error:.2e}", f"{rung.tolerance:.2e}")
        table.add_row(rung.graph, rung.name, *figures, verdict, rung.worst.case)
    console = Console()
    console.width = max(console.width, 130)
    console.print(table)
