"""The verdicts of a target as a table for people."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from export.targets.check import Verdict
from export.targets.targets import Target


def print_verdicts(name: str, target: Target, verdicts: Iterable[Verdict]) -> None:
    """Print one line a graph and restriction: how many nodes it is about, the verdict, the node that breaks it."""
    table = Table(title=f"{name} held to {target.runtime}", caption=f"The record is {target.evidence}.")
    for column in ("graph", "restriction", "what must hold"):
        table.add_column(column)
    table.add_column("nodes", justify="right")
    table.add_column("verdict")
    table.add_column("node that breaks it", overflow="fold")
    for verdict in verdicts:
        restriction, nodes = verdict.restriction, str(verdict.considered) if verdict.considered else "none"
        row = (verdict.graph, restriction.name, escape(restriction.statement), nodes)
        for breach in verdict.breaches:
            table.add_row(*row, "[red]BREAKS[/]", escape(f"{breach.node}: {breach.found}"))
        if not verdict.breaches:
            table.add_row(*row, "[green]holds[/]" if verdict.considered else "[dim]holds[/]", "")
    console = Console()
    console.width = max(console.width, 150)
    console.print(table)
