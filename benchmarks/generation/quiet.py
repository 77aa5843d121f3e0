"""How busy other processes kept the machine while something was measured, and which samples count.

A sample is quiet where others used less than a tenth of the processors. Where fewer than two are, the quietest three
stand for all, marked with a question mark.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.peers.processes import processor_seconds, wait_until_quiet
from benchmarks.peers.rounds import QUIET

Sample = tuple[float, float]
"""A value, and the share of the processors that others used meanwhile."""
NOTE = (
    "Samples count during which others used less than a tenth of the processors; where there are fewer than two, the "
    "three quietest, with a question mark."
)
_FEWEST, _QUIETEST = 2, 3


class Foreign:
    """Measures what others use, from when it is made."""

    def __init__(self, group: int | None = None) -> None:
        """Begin.

        Args:
            group: a process group that is ours beside this process: a server's.
        """
        self._group = group
        self._own, (self._busy, self._passed) = _own_seconds(group), processor_seconds()

    def share(self) -> float:
        """Of the processors, up to now."""
        busy, passed = processor_seconds()
        own = _own_seconds(self._group) - self._own
        return round(max(0.0, busy - self._busy - own) / max(passed - self._passed, 1e-9), 3)


def sampled(call: Callable[[], float], patience_s: float, group: int | None = None) -> Sample:
    """Wait for a quiet machine, but no longer than the patience; then call, and say how quiet it was."""
    wait_until_quiet(patience_s, QUIET)
    foreign = Foreign(group)
    value = call()
    return value, foreign.share()


def counting(samples: Sequence[Sample]) -> tuple[list[float], str]:
    """The values that count, and a mark if they are not quiet."""
    quiet = [value for value, foreign in samples if foreign < QUIET]
    if len(quiet) >= _FEWEST:
        return quiet, ""
    return [value for value, _ in sorted(samples, key=lambda sample: sample[1])[:_QUIETEST]], " ?"


def scheduling() -> str:
    """How this process is preferred to others, for a report; its children are so too."""
    if os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR):
        return "Run before all other work on the machine (real-time scheduling, `chrt -f`), and so not disturbed by it."
    return f"Run beside other work, at priority (nice) {os.nice(0)}."


def _own_seconds(group: int | None) -> float:
    return time.process_time() + (
        0.0
        if group is None
        else sum(_seconds(path) for path in Path("/proc").glob("[0-9]*") if _group_of(path) == group)
    )


def _words(folder: Path) -> list[str]:
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:  # it ended meanwhile
        return []


def _group_of(folder: Path) -> int:
    words = _words(folder)
    return int(words[2]) if words else -1


def _seconds(folder: Path) -> float:
    words = _words(folder)
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK") if words else 0.0
