"""When a request that was not begun is sent again."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from attendant.errors import BusyError, ConfigError, InputError
from clients.statuses import WHOLE_TEXTS

Answer = TypeVar("Answer")
_BATCHES = 10
"""In which a whole request may stand beside a cut one before it is refused."""

GROWTH = 2.0
_MOST_DOUBLINGS = 1000  # a float has no more: a longer pause than any


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a request is sent, and how long to wait in between: a random part of a pause that doubles.

    Attributes:
        tries: at most; 1 sends nothing twice.
        pause_s: longest wait before the second try.
        longest_pause_s: longest wait before any.

    Raises:
        ConfigError: there is not even one try, or a pause is negative.

    Source: M. Brooker, "Exponential backoff and jitter", AWS Architecture Blog, 2015 (full jitter).
    """

    tries: int = 1
    pause_s: float = 0.1
    longest_pause_s: float = 5.0

    def __post_init__(self) -> None:
        for name, least in (("tries", 1), ("pause_s", 0), ("longest_pause_s", 0)):
            if not getattr(self, name) >= least:
                raise ConfigError(f"{name} of at least {least}", str(getattr(self, name)), f"correct {name}")

    def pause_after(self, tries: int) -> float | None:
        """How long to wait after so many tries, in seconds; None if there is to be no other."""
        if tries >= self.tries:
            return None
        doublings = min(tries - 1, _MOST_DOUBLINGS)
        return random.uniform(0, min(self.longest_pause_s, self.pause_s * GROWTH**doublings))  # noqa: S311  no secret  # nosec B311


async def send_beside_cut_texts(send: Callable[[], Awaitable[Answer]]) -> Answer:
    """Send a request, whose own texts are whole, until no other of its batch is refused for a text that is cut.

    Raises:
        BusyError: there is one in each of many batches.
    """
    for _ in range(_BATCHES):
        try:
            return await send()
        except InputError as error:
            if error.expected != WHOLE_TEXTS:
                raise
    raise BusyError("a batch of whole requests", f"a text of another that is cut, {_BATCHES} times", "ask again")
