"""The checks of a target as a table for people."""

from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from export.targets.check import ConstraintCheck
from export.targets.targets import RuntimeTarget


def print_checks(name: str, target: RuntimeTarget, checks: Iterable[ConstraintCheck]) -> None:
    """Print one line a graph and constraint: how many nodes it is about, the verdict, the where it is violated."""
    table = Table(title=f"{name} validated for {target.runtime}", caption=f"The record is {target.evidence}.")
    for column in ("graph", "constraint", "what must hold"):
        table.add_column(column)
    table.add_column("nodes", justify="right")
    table.add_column("verdict")
    table.add_column("where it is violated", overflow="fold")
    for check in checks:
        constraint, nodes = check.constraint, str(check.nodes) if check.nodes else "none"
        row = (check.graph, constraint.name, escape(constraint.statement), nodes)
        for violation in check.violations:
            table.add_row(*row, "[red]VIOLATED[/]", escape(f"{violation.node}: {violation.found}"))
        if not check.violations:
            table.add_row(*row, "[green]holds[/]" if check.nodes else "[dim]holds[/]", "")
    console = Console()
    console.width = max(console.width, 150)
    console.print(table)
