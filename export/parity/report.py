"""The parity check as a table for people."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from export.parity.parity import ParityLevel


def print_levels(name: str, levels: Iterable[ParityLevel]) -> None:
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
    for level in levels:
        verdict = "[green]ok[/]" if level.passed else "[red]FAILED[/]"
        figures = (str(level.cases), f"{level.worst.error:.2e}", f"{level.tolerance:.2e}")
        table.add_row(level.graph, level.name, *figures, verdict, level.worst.case)
    console = Console()
    console.width = max(console.width, 130)
    console.print(table)
