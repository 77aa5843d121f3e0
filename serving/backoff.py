"""How long to wait before something that failed is tried again: not at all at first, then ever longer."""

import time
from collections.abc import Callable
from math import inf

FIRST_S, LONGEST_S = 0.5, 30.0
FORGOTTEN_S = 60.0
"""Time without a failure after which the next one counts as the first."""
WELL_S = 10.0
"""The same after a success that was noted."""


class Backoff:
    """Counts failures in a row."""

    def __init__(
        self,
        longest_s: float = LONGEST_S,
        forgotten_s: float = FORGOTTEN_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._longest_s, self._forgotten_s, self._clock = longest_s, forgotten_s, clock
        self._failures, self._failed_s, self._succeeded_s = 0, -forgotten_s, inf

    def note_success(self) -> None:
        """What was tried again is well: after :data:`WELL_S` the next failure counts as the first."""
        self._succeeded_s = self._clock()

    def pause_after_failure(self) -> float:
        """Count a failure; returns the seconds to wait."""
        now_s = self._clock()
        is_next = now_s - self._failed_s < self._forgotten_s and now_s - self._succeeded_s < WELL_S
        self._failures, self._succeeded_s = self._failures + 1 if is_next else 1, inf
        pause_s = 0.0 if self._failures == 1 else min(FIRST_S * 2.0 ** min(self._failures - 2, 16), self._longest_s)
        self._failed_s = now_s + pause_s
        return pause_s
