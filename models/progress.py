"""Progress of long work on standard error: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

Advance = Callable[[str], None]
_MOST_LINES = 10


@contextmanager
def progress(title: str, total: int) -> Iterator[Advance]:
    """Show how much of a long piece of work is done.

    Args:
        title: what is being done.
        total: number of steps.

    Yields:
        A function to call after each step, with what was finished.
    """
    console = Console(stderr=True)
    with _bar(console, title, total) if console.is_terminal else _lines(title, total) as advance:
        yield advance


@contextmanager
def _bar(console: Console, title: str, total: int) -> Iterator[Advance]:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(SpinnerColumn(), *columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as bar:
        task = bar.add_task(title, total=total)

        def advance(finished: str) -> None:
            bar.update(task, advance=1, description=f"{title}: {finished}")

        yield advance


@contextmanager
def _lines(title: str, total: int) -> Iterator[Advance]:
    began = time.monotonic()
    done = 0

    def advance(finished: str) -> None:
        nonlocal done
        done += 1
        if done % max(1, -(-total // _MOST_LINES)) and done != total:
            return
        sys.stderr.write(f"{title} {done}/{total} ({time.monotonic() - began:.1f} s): {finished}\n")

    yield advance
