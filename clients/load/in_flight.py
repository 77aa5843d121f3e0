"""One request while it is under way: what has come of it so far, and how it is taken back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

from numpy.typing import NDArray

from clients.load.record import Outcome, RequestRecord

Outputs = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What one request is, as it was drawn before it was sent.

    Attributes:
        workload: the number of its workload.
        question: the number of its question.
        cancelled: whether it is to be taken back.
    """

    workload: int
    question: int
    cancelled: bool = False


class InFlightRequest:
    """A request under way; a transport tells it what comes.

    Attributes:
        choice: what it is.
        text: of its first answer, as far as it came.
        finish_reason: of that answer; empty as long as none came.
        input_tokens: of the question, where the server says it with the answer.
        outputs: reads the tensors of a whole answer; None where there is none.
        take_back: takes it back from the server; None where it cannot.
        outcome: once it is known.
        error: in one line.
        last_s: when something happened last, by the monotonic clock.
    """

    __slots__ = (
        "_began_s",
        "_number",
        "cancel_after",
        "choice",
        "count",
        "error",
        "finish_reason",
        "input_tokens",
        "intended_s",
        "last_s",
        "outcome",
        "outputs",
        "responses_s",
        "sent_s",
        "take_back",
        "text",
        "tokens",
    )

    def __init__(self, number: int, choice: Choice, intended_s: float, began_s: float) -> None:
        """Begin.

        Args:
            number: in the order of the intended times.
            choice: what it is.
            intended_s: seconds since the run began.
            began_s: when the run began, by the monotonic clock.
        """
        self._number, self._began_s = number, began_s
        self.choice, self.intended_s = choice, intended_s
        self.sent_s = 0.0
        self.last_s = monotonic()
        self.responses_s: list[float] = []
        self.tokens: list[int] = []
        self.count = self.input_tokens = 0
        self.cancel_after: int | None = None
        self.text, self.finish_reason = "", ""
        self.outputs: Callable[[], Outputs] | None = None
        self.take_back: Callable[[], None] | None = None
        self.outcome: Outcome | None = None
        self.error = ""

    def send(self) -> None:
        """Note that it is sent now."""
        self.last_s = monotonic()
        self.sent_s = self.last_s - self._began_s

    def hear(self, tokens: int = 0) -> None:
        """Note that a response with so many tokens has come."""
        self.last_s = monotonic()
        self.responses_s.append(self.last_s - self._began_s)
        self.tokens.append(tokens)
        self.count += tokens
        if self.cancel_after is not None and self.count >= self.cancel_after:
            self.leave(Outcome.CANCELLED)

    def leave(self, outcome: Outcome, error: str = "") -> None:
        """Take it back, if nothing has become of it yet."""
        if self.outcome is None:
            self.outcome, self.error = outcome, error
            if self.take_back is not None:
                self.take_back()

    def record(self, workload: str, input_tokens: int, images: int) -> RequestRecord:
        """What is kept of it; it ends now."""
        return RequestRecord(
            number=self._number,
            workload=workload,
            intended_s=self.intended_s,
            sent_s=self.sent_s,
            ended_s=monotonic() - self._began_s,
            responses_s=tuple(self.responses_s),
            tokens=tuple(self.tokens),
            input_tokens=self.input_tokens or input_tokens,
            images=images,
            outcome=self.outcome or Outcome.OK,
            error=self.error,
        )
