"""How often the server was troubled for a model, and when it may be for it again."""

import time
from math import inf

AGAIN_S, MOST_S = 5.0, 600.0
"""How long a model is away that troubles the others as it is loaded, before it may again: half of the first pause,
twice as long each time, and the longest."""


class Troubles(dict[str, list[float]]):
    """Model → when the server was replaced for it, by the monotonic clock."""

    def count(self, name: str) -> None:
        self[name] = [*self.get(name, ()), time.monotonic()]

    def due_s(self, name: str) -> float:
        """When others may be troubled for the model again."""
        times = self.get(name)
        return times[-1] + min(AGAIN_S * 2 ** min(len(times), 16), MOST_S) if times else -inf
