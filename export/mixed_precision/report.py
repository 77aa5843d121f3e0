"""A conversion and a bisection, in a terminal."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from attendant.quantities import bytes_text
from export.mixed_precision.bisect import Bisection
from export.mixed_precision.outcome import KeptNode, Outcome
from export.mixed_precision.page import drift_text

_MOST_VALUES = 10


def print_outcome(outcome: Outcome) -> None:
    """Print what was written, what stays in float32 with reasons, and what violates the target's constraints."""
    console = Console()
    console.width = max(console.width, 120)
    typed, (before, after) = outcome.typed, outcome.nbytes
    if typed.kept:
        table = Table(title="kept in float32", title_justify="left")
        for column in ("node", "operator", "reason"):
            table.add_column(column, overflow="fold")
        for node in sorted(typed.kept, key=_order):
            table.add_row(escape(node.name), node.operator, escape(node.reason))
        console.print(table)
    for check in outcome.checks:
        for violation in check.violations:
            _say(console, f"{outcome.target}: {check.constraint.name}: {violation.node}: {violation.found}")
    found = typed.found
    _say(
        console,
        f"{outcome.out}: {sum(typed.operators.values())} operators in {outcome.precision}, {len(typed.kept)} kept in "
        f"float32, {len(outcome.measured)} of them by measurement; weights {bytes_text(before)} → {bytes_text(after)}",
    )
    _say(
        console,
        f"drift {drift_text(outcome.worst)} of at most {drift_text(outcome.budget)}, with nothing kept "
        f"{drift_text(found.drift_of_all)}; {outcome.samples} inputs {outcome.feeds}, {found.runs} runs",
    )


def print_bisection(bisection: Bisection) -> None:
    """Print the first node that drifts, and the values around it."""
    console = Console()
    console.width = max(console.width, 120)
    culprit = bisection.culprit
    if culprit is not None:
        at = bisection.values.index(culprit)
        table = Table(title="values in the graph's order", title_justify="left")
        for column in ("value", "operator", "drift", "largest"):
            table.add_column(column, overflow="fold")
        for one in bisection.values[max(0, at - 3) : at + _MOST_VALUES - 3]:
            mark = "[bold]" if one is culprit else ""
            row = escape(one.value), one.operator, drift_text(one.drift), f"{one.largest:.3g}"
            table.add_row(*(f"{mark}{cell}" for cell in row))
        console.print(table)
        _say(
            console,
            f"first drift: node {culprit.node} ({culprit.operator}), output {culprit.value}: "
            f"{drift_text(culprit.drift)} of at most {drift_text(bisection.tolerance)}",
        )
    else:
        worst = bisection.worst
        _say(
            console,
            f"no drift beyond {drift_text(bisection.tolerance)} reaches an output; the largest on the way is "
            f"{drift_text(worst.drift)}, of {worst.node} ({worst.operator})",
        )
    _say(
        console,
        f"{len(bisection.values)} values of {bisection.first} and {bisection.second} compared, "
        f"{bisection.unmatched} without a counterpart; inputs {bisection.feeds}",
    )


def _order(node: KeptNode) -> tuple[bool, str]:
    return not node.measured, node.reason


def _say(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)
