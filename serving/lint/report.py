"""Problems as a table for people."""

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from attendant.printable import printable
from serving.lint.check import Problem

_COLOURS = {"error": "red", "warning": "yellow"}


def print_problems(title: str, problems: Sequence[Problem]) -> None:
    """Print one line a problem, then what each rule among them means, and how many there are."""
    console = Console()
    console.width = max(console.width, 120)
    if problems:
        table = Table(title=_shown(title))
        for column in ("model", "severity", "rule", "where", "found"):
            table.add_column(column, overflow="fold")
        for problem in problems:
            colour = _COLOURS[problem.severity]
            cells = (problem.finding.where, problem.finding.found)
            severity = f"[{colour}]{problem.severity}[/]"
            table.add_row(_shown(problem.subject), severity, problem.rule.name, *map(_shown, cells))
        console.print(table)
        console.print(_explanations(problems))
    counts = [sum(problem.severity == severity for problem in problems) for severity in _COLOURS]
    console.print(f"{_shown(title)}: {counts[0]} errors, {counts[1]} warnings", highlight=False)


def _shown(text: str) -> str:
    return escape(printable(text))


def _explanations(problems: Sequence[Problem]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    rules = [rule for rule, _ in groupby(sorted((problem.rule for problem in problems), key=lambda rule: rule.name))]
    for rule in rules:
        lines = f"{rule.statement}\nelse  {rule.consequence}\ndo    {rule.remedy}\nfrom  {rule.source}\n"
        table.add_row(rule.name, escape(lines))
    return table
