"""How the engine of a generative model is doing, as the model says it to a client at once, whatever waits."""

import msgspec


class EngineHealth(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine says of itself.

    Attributes:
        alive: whether the thread that steps it runs.
        known: whether it has the request in question, if there is one.
        running: requests with slots.
        waiting: requests without.
        steps: that it has made so far.
        stalled_s: how long its present step has taken so far, in seconds.
        loading: whether it is being started anew.
        hung_s: how long its process has neither said nor done anything, in seconds.
    """

    alive: bool
    known: bool
    running: int
    waiting: int
    steps: int
    stalled_s: float
    loading: bool = False
    hung_s: float = 0.0

    @property
    def busy(self) -> bool:
        return self.running + self.waiting > 0
