"""A clock for an engine that computes nothing: it goes on by what runs would take, and by what holds them up.

a run            r, beside whatever is sent: a runtime lets other threads go on
then the engine  waits for w (u − t), where at t responses are still to be sent until u, and works p
"""

from __future__ import annotations

from serving.simulation.sending import Sending


class VirtualClock:
    """Seconds since the start of a simulation.

    Attributes:
        now_s: the time.
        worked_s: of it, how long the decoding thread has worked, and waited within its work.
    """

    def __init__(self, sending: Sending, wait: float = 0.0) -> None:
        """Begin at 0.

        Args:
            sending: goes on beside the decoding thread.
            wait: w, the share of what is still to be sent that the thread waits for.
        """
        self.now_s = self.worked_s = 0.0
        self._sending, self._wait, self._owed_s = sending, wait, 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now_s

    def owe(self, seconds: float) -> None:
        """Let the next work take so much longer."""
        self._owed_s += seconds

    def work(self, run_s: float, engine_s: float = 0.0) -> None:
        """Let the decoding thread run a graph, and then do an engine's work on what it returned."""
        began_s = self.now_s
        self.idle_until(began_s + run_s)
        waited_s = self._wait * max(0.0, self._sending.busy_until_s - self.now_s)
        self.idle_until(self.now_s + waited_s + engine_s + self._owed_s)
        self._owed_s = 0.0
        self.worked_s += self.now_s - began_s

    def idle_until(self, time_s: float) -> None:
        """Let the time pass to a later one; what was said is sent meanwhile."""
        self._sending.begin(self.now_s)
        while self.now_s < self._sending.busy_until_s < time_s:
            self.now_s = self._sending.busy_until_s
            self._sending.begin(self.now_s)
        self.now_s = max(self.now_s, time_s)
