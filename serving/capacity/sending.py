"""The answering thread of a server on a virtual clock: one response after the other; what comes meanwhile gathers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from attendant.errors import AttendantError
from serving.engine.request_output import RequestOutput


@dataclass(slots=True, eq=False)
class Heard:
    """What a simulated client hears; times are seconds of the virtual clock.

    Attributes:
        scheduled_s: when it sent its request.
        prompt: tokens of it.
        responses_s: when each response came.
        tokens: of each response.
        held: tokens that leave with the next response.
        is_over: whether the answer is complete.
        error: the class of the error that ended it; empty if there was none.
    """

    scheduled_s: float
    prompt: int
    responses_s: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    held: int = 0
    is_over: bool = False
    error: str = ""


class Sending:
    """Sends what an engine says.

    Attributes:
        busy_until_s: when the last of the responses that were begun is sent.
    """

    def __init__(self, first_response_s: Callable[[], float], response_s: Callable[[], float], stream: bool) -> None:
        """Begin idle.

        Args:
            first_response_s: gives what it takes to send a response while none is being sent.
            response_s: to send one that waited for others.
            stream: whether tokens leave as they come, or an answer whole.
        """
        self._first_response_s, self._response_s = first_response_s, response_s
        self.busy_until_s = 0.0
        self._stream = stream
        self._said: dict[Heard, None] = {}

    def say(self, heard: Heard, piece: RequestOutput | AttendantError) -> None:
        """Take a piece of an answer, or the error that ends it."""
        if isinstance(piece, AttendantError):
            heard.error = type(piece).__name__
        else:
            heard.held += len(piece.token_ids)
            heard.is_over = piece.is_last
        if self._stream or heard.is_over or heard.error:
            self._said[heard] = None

    def finish(self, now_s: float) -> None:
        """Send all that was said."""
        self.begin(now_s)
        self.begin(self.busy_until_s)

    def begin(self, now_s: float) -> None:
        """Send what was said by now, if nothing else is being sent."""
        if not self._said or now_s < self.busy_until_s:
            return
        is_awake = now_s == self.busy_until_s
        for heard in self._said:
            now_s += self._response_s() if is_awake else self._first_response_s()
            is_awake = True
            heard.responses_s.append(now_s)
            heard.tokens.append(heard.held)
            heard.held = 0
        self.busy_until_s = now_s
        self._said.clear()
