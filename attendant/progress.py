"""Progress of long work on standard error: a bar on a terminal, plain lines elsewhere."""

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
_shown: list[Progress] = []
"""What is on the terminal now, if anything: work within other work adds its bar to it."""


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
    with _bars(console) as bars:
        task = bars.add_task(title, total=total)

        def advance(finished: str) -> None:
            bars.update(task, advance=1, description=f"{title}: {finished}")

        yield advance
        if bars.task_ids[0] != task:  # a bar within others: those say what is left
            bars.remove_task(task)


@contextmanager
def _bars(console: Console) -> Iterator[Progress]:
    if _shown:
        yield _shown[0]
        return
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    times = TimeElapsedColumn(), TimeRemainingColumn()
    # Lines that are printed meanwhile go above the bars, but not from a file or a pipe to the terminal.
    with Progress(*columns, *times, console=console, redirect_stdout=sys.stdout.isatty()) as bars:
        _shown.append(bars)
        try:
            yield bars
        finally:
            _shown.clear()


@contextmanager
def _lines(title: str, total: int) -> Iterator[Advance]:
    began = time.monotonic()
    done = 0

    def advance(finished: str) -> None:
        nonlocal done
        done += 1
        if done % max(1, -(-total // _MOST_LINES)) and done != total:
            return
        elapsed = time.monotonic() - began
        left = elapsed / done * (total - done)
        times = f"{elapsed:.1f} s" + (f", {left:.0f} s left" if left >= 1 else "")
        sys.stderr.write(f"{title} {done}/{total} ({times}): {' '.join(finished.split())}\n")

    yield advance
