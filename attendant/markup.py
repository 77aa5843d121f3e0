"""Pieces of an HTML page: text made safe, tables with a header row, bars."""

from collections.abc import Iterable, Sequence
from html import escape

COLOURS = 7


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def safe(text: object) -> str:
    """Text as HTML; markup stays as it is."""
    return text if isinstance(text, Markup) else escape(str(text))


def table(
    caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]], numbers: Iterable[int] = ()
) -> Markup:
    """A table whose first cell of a row is the row's name.

    Args:
        caption: what the table is about.
        columns: headings.
        rows: cells; :class:`Markup` is taken as it is.
        numbers: which columns are set to the right.
    """
    right = set(numbers)
    head = "".join(f'<th scope="col"{_side(i, right)}>{safe(column)}</th>' for i, column in enumerate(columns))
    body = "".join(_row(row, right) for row in rows)
    return Markup(f"<table>{_caption(caption)}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def folded(
    caption: str, columns: Sequence[str], rows: Sequence[Sequence[object]], numbers: Iterable[int], most: int
) -> Markup:
    """A table of the first rows, and the others behind a line that opens."""
    shown, hidden = rows[:most], rows[most:]
    first = table(caption, columns, shown, numbers)
    if not hidden:
        return first
    return Markup(
        f"{first}<details><summary>{len(hidden)} more</summary>{table('', columns, hidden, numbers)}</details>"
    )


def bar(share: float, colour: str) -> Markup:
    """A bar as wide as the share of its cell; its number stands in another cell."""
    return Markup(f'<div class="bar" aria-hidden="true"><span class="{colour}" style="width:{share:.1%}"></span></div>')


def keyed(text: str, colour: str) -> Markup:
    """A name behind a square of its colour."""
    return Markup(f'<span class="key {colour}" aria-hidden="true"></span>{safe(text)}')


def code(text: object) -> Markup:
    """Text in type of one width."""
    return Markup(f"<code>{safe(text)}</code>")


def colours(names: Iterable[str]) -> dict[str, str]:
    """A colour for each of the first names, and grey for the others."""
    return {name: f"k{index}" if index < COLOURS else "other" for index, name in enumerate(names)}


def _caption(text: str) -> str:
    return f"<caption>{safe(text)}</caption>" if text else ""


def _row(cells: Sequence[object], right: set[int]) -> str:
    first, *others = cells
    rest = "".join(f"<td{_side(i, right)}>{safe(cell)}</td>" for i, cell in enumerate(others, 1))
    return f'<tr><th scope="row">{safe(first)}</th>{rest}</tr>'


def _side(index: int, right: set[int]) -> str:
    return ' class="number"' if index in right else ""
