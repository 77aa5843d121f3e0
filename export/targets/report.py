"""The checks of a target for people: what is violated and where, or that nothing is."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from export.targets.check import ConstraintCheck
from export.targets.targets import RuntimeTarget


def print_checks(name: str, target: RuntimeTarget, checks: Sequence[ConstraintCheck]) -> None:
    """Print one line a violation, and how many constraints hold."""
    console = Console()
    console.width = max(console.width, 150)
    violations = [(check, violation) for check in checks for violation in check.violations]
    if violations:
        table = Table(title=f"{name}, where it violates what {target.runtime} reads")
        for column in ("graph", "constraint", "what must hold", "where it is violated", "source"):
            table.add_column(column, overflow="fold")
        for check, violation in violations:
            constraint = check.constraint
            where = f"{violation.node}: {violation.found}"
            row = (check.graph, constraint.name, constraint.statement, where, constraint.source)
            table.add_row(*map(escape, row))
        console.print(table)
    held, graphs = sum(not check.violations for check in checks), {check.graph for check in checks}
    console.print(
        f"{name}: {held} of {len(checks)} constraints hold in {', '.join(sorted(graphs))} for {target.runtime}. "
        f"The record is {target.evidence}.",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
