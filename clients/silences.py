"""What is known of streams that are silent: a model that says its health is asked about all of them at once.

A dead worker never ends the streams that it had (server#8604). Its successor, if there is one, does not know them.
"""

import time
from typing import Any

import msgspec

from attendant.engine_health import EngineHealth
from attendant.errors import UnreachableError
from attendant.tensor_names import TEXT_OUTPUT

SILENCE_S, LONGEST_SILENCE_S = 1.0, 4.0
"""How long a stream may be silent before its model gets a question about it, and the longest pause between two."""
LOST_S = 3.5
"""How long such questions may have no answer."""
BETWEEN_QUESTIONS_S = 0.9
"""To one model, whichever of its streams asks."""
SHORTEST_WAIT_S = 0.25


class Silence:
    """Of one stream.

    Attributes:
        key: of its request.
        began_s: when it was begun, by the monotonic clock.
        heard_s: when it was last heard of.
        is_asked: whether a question about it has no answer yet.
        unknown: how many answers in a row came of a worker that never had it.
        refusal: of a question about it, by a server that goes on.
    """

    def __init__(self, key: str) -> None:
        self.key, self.began_s = key, time.monotonic()
        self.end()

    def end(self) -> None:
        """Note a response."""
        self.heard_s, self.is_asked, self.unknown, self.refusal = time.monotonic(), False, 0, ""
        self._pause_s, self._unanswered_s = SILENCE_S, 0.0

    @property
    def wait_s(self) -> float:
        """How long to wait for a response before something else is to be done."""
        if self.is_asked:
            return min(SILENCE_S, LOST_S - self._unanswered_s)
        return max(SHORTEST_WAIT_S, self.heard_s + self._pause_s - time.monotonic())

    def note_wait(self, seconds: float) -> None:
        """Note that a question had no answer for so long, as far as anybody was there to hear one."""
        self._unanswered_s += seconds

    def note_answer(self, health: EngineHealth) -> None:
        """Note what the answer to a question says, unless the stream itself was heard meanwhile, or another answer.

        A worker that is older than the request does not know it before it comes and once it is answered.
        """
        if self.is_asked:
            self.heard_s, self.is_asked, self._unanswered_s = time.monotonic(), False, 0.0
            is_known = self.key not in health.unknown or health.age_s > self.heard_s - self.began_s
            self.unknown = 0 if is_known else self.unknown + 1
            self._pause_s = min(2 * self._pause_s, LONGEST_SILENCE_S) if is_known else SILENCE_S

    @property
    def fault(self) -> str:
        """Why the worker that had the request is dead; empty as long as it may live."""
        if self.unknown == 2:  # once, a question may have overtaken the request
            return "another one in its place"
        return "no answer to a question about it either" if self._unanswered_s >= LOST_S else self.refusal


class Silences:
    """Those of all streams of one client to one model."""

    def __init__(self) -> None:
        self._open: dict[str, Silence] = {}
        self._asked_s = 0.0

    def begin(self, key: str) -> Silence:
        """Watch a stream from now on."""
        self._open[key] = Silence(key)
        return self._open[key]

    def end(self, silence: Silence) -> None:
        """Watch it no more."""
        del self._open[silence.key]

    def take_question(self) -> list[str]:
        """The keys of all that are silent, which the caller asks about; none if somebody has just asked."""
        now_s = time.monotonic()
        if now_s - self._asked_s < BETWEEN_QUESTIONS_S:
            return []
        self._asked_s = now_s
        silent = [one for one in self._open.values() if now_s - one.heard_s >= SILENCE_S]
        for one in silent:
            one.is_asked = True  # again and again: a question that meets a dying worker has no answer
        return [one.key for one in silent]

    def note_refusal(self, keys: list[str], refusal: str) -> None:
        """Note that a question was refused; where the server is stopping, an empty text, that says nothing of them."""
        for key in keys:
            if key in self._open and self._open[key].is_asked:
                if not refusal:
                    self._open[key].end()
                self._open[key].refusal = refusal

    def note_answer(self, keys: list[str], health: EngineHealth) -> None:
        """Note what an answer says of the requests that a question was about."""
        for key in keys:
            if key in self._open:
                self._open[key].note_answer(health)


def read_health(result: Any) -> EngineHealth:
    """What the answer to a question says."""
    return msgspec.json.decode(bytes(result.as_numpy(TEXT_OUTPUT).reshape(-1)[0]), type=EngineHealth)


def lost(model: str, server: str, found: str) -> UnreachableError:
    """The error of a request whose worker is dead."""
    remedy = "send the request again"
    message = f"the worker of model {model!r} at {server} died before the answer was whole; {remedy}"
    return UnreachableError(f"the worker that has a request to {model!r}", found, remedy, message=message)
