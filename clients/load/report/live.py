"""How a run goes while it runs, on standard error: a line that is rewritten on a terminal, plain lines elsewhere."""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from clients.load.record import RequestOutcome, RequestRecord
from clients.load.report.titles import rate_text, time_text

OnRecord = Callable[[RequestRecord], None]
_LOOK_BACK_S = 2.0
_PLAIN_EVERY_S = 5.0


class LiveTally:
    """What has come back so far; cheap enough for the generator's own event loop.

    Args:
        lasts_s: how long the run is to send requests; None if it ends by their number.
        clock: monotonic seconds.
    """

    def __init__(self, lasts_s: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._began, self._clock, self.lasts_s = clock(), clock, lasts_s
        self._recent: deque[tuple[float, float, int]] = deque()
        self.counts = dict.fromkeys(RequestOutcome, 0)

    def note(self, record: RequestRecord) -> None:
        """Count a request that has ended."""
        self.counts[record.outcome] += 1
        self._recent.append((self._clock(), record.ended_s - record.sent_s, sum(record.tokens)))

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return self._clock() - self._began

    def line(self) -> str:
        """Rate, tokens and median latency of the last two seconds, and every outcome so far."""
        now = self._clock()
        while self._recent and self._recent[0][0] < now - _LOOK_BACK_S:
            self._recent.popleft()
        span = min(max(self.seconds, 1e-3), _LOOK_BACK_S)
        parts = [f"{rate_text(len(self._recent) / span)} requests/s"]
        if tokens := sum(count for _, _, count in self._recent):
            parts.append(f"{rate_text(tokens / span)} tokens/s")
        if self._recent:
            parts.append(f"median {time_text(median(took for _, took, _ in self._recent))}")
        parts += [f"{count:,} {outcome.value}" for outcome, count in self.counts.items() if count]
        return " · ".join(parts)


@contextmanager
def live(title: str, lasts_s: float | None, clock: Callable[[], float] = time.monotonic) -> Iterator[OnRecord]:
    """Show how a run goes.

    Args:
        title: what runs.
        lasts_s: how long it is to send requests; None if it ends by their number.
        clock: monotonic seconds.

    Yields:
        A function to call with each request that has ended; it returns at once.
    """
    console, tally = Console(stderr=True), LiveTally(lasts_s, clock)
    if not console.is_terminal:
        written = 0

        def note(record: RequestRecord) -> None:
            nonlocal written
            tally.note(record)
            if tally.seconds >= (written + 1) * _PLAIN_EVERY_S:
                written = int(tally.seconds // _PLAIN_EVERY_S)
                sys.stderr.write(f"{title}, {tally.seconds:.0f} s: {tally.line()}\n")

        yield note
        return
    with Live(_Display(title, tally), console=console, refresh_per_second=4, transient=True):
        yield tally.note


class _Display:
    def __init__(self, title: str, tally: LiveTally) -> None:
        self._title, self._tally = title, tally

    def __rich__(self) -> RenderableType:
        grid, seconds, lasts = Table.grid(padding=(0, 1)), self._tally.seconds, self._tally.lasts_s
        bar = ProgressBar(total=lasts, completed=min(seconds, lasts or 0.0), width=24, pulse=lasts is None)
        grid.add_row(self._title, bar, f"{seconds:.0f}{f' of {lasts:.0f}' if lasts else ''} s", self._tally.line())
        return grid
