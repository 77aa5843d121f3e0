"""Models in every precision as lines for people: on the terminal and in docs/reference/precision.md."""

from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from attendant.quantities import bytes_text
from export.quality.budgets import BudgetVerdict
from export.quality.comparison import PrecisionCost
from export.quality.report import COLUMNS, cells_of

HEAD = ("precision", COLUMNS[0], "files", *COLUMNS[1:], "verdict")


def print_compared(compared: Iterable[PrecisionCost]) -> None:
    """Print one line a model, precision and graph."""
    table = Table(title="against eager float64")
    for column in ("model", *HEAD):
        table.add_column(column, overflow="fold")
    for one in compared:
        for row in rows_of(one):
            table.add_row(one.model, *map(escape, row))
    console = Console()
    console.width = max(console.width, 170)
    console.print(table)


def rows_of(one: PrecisionCost) -> list[tuple[str, ...]]:
    """The cells under :data:`HEAD`, a row for each graph and output; one that says why, where there are none."""
    if one.refusal:
        return [(one.precision, *["—"] * (len(HEAD) - 2), f"none: {one.refusal}")]
    return [
        (one.precision, cells[0], bytes_text(one.sizes[quality.form]), *cells[1:], _verdict(one.verdicts, quality.form))
        for quality in one.qualities
        for cells in cells_of(quality)
    ]


def _verdict(verdicts: Iterable[BudgetVerdict], form: str) -> str:
    beyond = [one for one in verdicts if one.form == form and not one.passed]
    if not beyond:
        return "within"
    return "BEYOND: " + "; ".join(f"{one.limit} {one.found:.2g}, allowed {one.allowed:g}" for one in beyond)
