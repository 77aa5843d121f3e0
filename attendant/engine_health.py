"""How the engine of a generative model is doing, as the model says it to a client at once, whatever waits."""

import msgspec


class EngineHealth(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine says of itself.

    Attributes:
        alive: whether the thread that steps it runs.
        running: requests with slots.
        waiting: requests without.
        steps: that it has made so far.
        stalled_s: how long its present step has taken so far, in seconds.
        loading: whether it is being started anew.
        hung_s: how long its process has neither said nor done anything, in seconds.
        age_s: how long ago it was loaded, in seconds.
        failure: why it could not be started anew the last time it was tried; empty if it was not, or could.
        unknown: of the keys that the question named, those of requests that it does not have.
    """

    alive: bool
    running: int
    waiting: int
    steps: int
    stalled_s: float
    loading: bool = False
    hung_s: float = 0.0
    age_s: float = 0.0
    failure: str = ""
    unknown: tuple[str, ...] = ()

    @property
    def busy(self) -> bool:
        return self.running + self.waiting > 0
