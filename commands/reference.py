"""The generated pages of docs/reference: every verb's help, and every kind of error.

``python -m commands.reference`` writes them; a test compares them with the code.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from attendant import errors
from attendant.cli import Group, Verbs, run
from commands.attendant import VERBS

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
WIDTH = 100
"""Characters of a line of help."""


def command_line_page() -> str:
    """Every verb with what ``--help`` says of it."""
    head = "# Command line\n\n`python -m commands.reference` writes this page from the code.\n\n"
    return head + "".join(f"## attendant {verb}\n\n```text\n{_help_of(verb)}```\n\n" for verb in _names(VERBS, ""))


def errors_page() -> str:
    """Every kind of error: its code, the exit status of a command, and what it means."""
    head = (
        "# Errors\n\n`python -m commands.reference` writes this page from the code.\n\n"
        "A model's body sends an error as JSON with `code`, `param`, `expected`, `found`, `remedy` and `message`;\n"
        "clients raise the class, and the gateway answers with the code. Nothing parses the message.\n\n"
        "| code | class | exit status | meaning |\n|---|---|---|---|\n"
    )
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.AttendantError)]
    rows = (
        f"| `{kind.code}` | `{kind.__name__}` | {kind.exit_status} | {(kind.__doc__ or '').partition(chr(10))[0]} |\n"
        for kind in sorted(kinds, key=lambda kind: kind.code)
    )
    return head + "".join(rows)


PAGES = {"command-line.md": command_line_page, "errors.md": errors_page}


def _names(verbs: Verbs, before: str) -> Iterator[str]:
    for name, verb in verbs.items():
        if isinstance(verb, Group):
            yield from _names(verb.verbs, f"{before}{name} ")
        else:
            yield f"{before}{name}"


def _help_of(verb: str) -> str:
    said = io.StringIO()
    with (
        patch.dict("os.environ", {"COLUMNS": str(WIDTH)}),
        contextlib.redirect_stdout(said),
        contextlib.suppress(SystemExit),
    ):
        run("attendant", "", VERBS, [*verb.split(), "--help"])
    return "".join(f"{line.rstrip()}\n" for line in said.getvalue().splitlines())


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
        sys.stdout.write(f"{FOLDER / name}\n")
