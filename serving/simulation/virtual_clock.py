"""A clock for an engine that computes nothing: it goes on by what runs would take, and by what holds them up."""

from __future__ import annotations

from serving.simulation.sending import Sending


class VirtualClock:
    """Seconds since the start of a simulation.

    Attributes:
        now_s: the time.
        worked_s: of it, how long the decoding thread has worked.
    """

    def __init__(self, sending: Sending) -> None:
        """Begin at 0.

        Args:
            sending: goes on beside the decoding thread, and holds it up.
        """
        self.now_s = self.worked_s = 0.0
        self._sending, self._owed_s = sending, 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now_s

    def owe(self, seconds: float) -> None:
        """Let the next work take so much longer."""
        self._owed_s += seconds

    def work(self, seconds: float) -> None:
        """Let the decoding thread do so much work, which takes longer while responses are sent."""
        began_s, left_s, self._owed_s = self.now_s, seconds + self._owed_s, 0.0
        while left_s > 0:
            self._sending.begin(self.now_s)
            sent_s = self._sending.busy_until_s - self.now_s
            speed = 1 - self._sending.held_share if sent_s > 0 else 1.0
            if sent_s <= 0 or sent_s * speed >= left_s:
                self.now_s += left_s / speed
                break
            left_s -= sent_s * speed
            self.now_s = self._sending.busy_until_s
        self.worked_s += self.now_s - began_s

    def idle_until(self, time_s: float) -> None:
        """Let the time pass to a later one without work."""
        self._sending.begin(self.now_s)
        while self.now_s < self._sending.busy_until_s < time_s:
            self.now_s = self._sending.busy_until_s
            self._sending.begin(self.now_s)
        self.now_s = max(self.now_s, time_s)
