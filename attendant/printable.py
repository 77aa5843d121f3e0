"""What others wrote, as a line for a terminal: there it could change colours and titles, or forge lines of ours."""

import reprlib
import sys
from typing import Any


def printable(text: str) -> str:
    """The text with all that is not printable escaped as in Python, line feeds and halves of characters as well."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def for_output(text: str) -> str:
    """A text of a model as standard output takes it: as it is, but for control characters where that is a terminal."""
    if not sys.stdout.isatty():
        return text
    return "".join(one if one in "\n\t" else printable(one) for one in text)


def shown(value: Any) -> str:
    """A value of a file, as an error says that it was found: never long."""
    try:
        return reprlib.repr(value)[:200]
    except ValueError:  # an integer of more digits than Python writes
        return "a number beyond reason"
