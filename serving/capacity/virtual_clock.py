"""A clock for an engine that computes nothing: it goes on by what its work would take; answers are sent beside it."""

from __future__ import annotations

from serving.capacity.sending import Sending


class VirtualClock:
    """Seconds since the start of a simulation.

    Attributes:
        now_s: the time.
        worked_s: of it, how long the decoding thread has worked.
    """

    def __init__(self, sending: Sending) -> None:
        """Begin at 0.

        Args:
            sending: goes on beside the decoding thread.
        """
        self.now_s = self.worked_s = 0.0
        self._sending = sending

    def __call__(self) -> float:
        """The time."""
        return self.now_s

    def work(self, seconds: float) -> None:
        """Let the decoding thread work."""
        self.idle_until(self.now_s + seconds)
        self.worked_s += seconds

    def idle_until(self, time_s: float) -> None:
        """Let the time pass to a later one; what was said is sent meanwhile."""
        self._sending.begin(self.now_s)
        while self.now_s < self._sending.busy_until_s < time_s:
            self.now_s = self._sending.busy_until_s
            self._sending.begin(self.now_s)
        self.now_s = max(self.now_s, time_s)
