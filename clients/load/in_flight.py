"""One request while it is in flight: what has come of it so far, and how it is cancelled."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

from numpy.typing import NDArray

from clients.load.record import RequestOutcome, RequestRecord
from clients.load.request_inputs import RequestInput

Outputs = Mapping[str, NDArray[Any]]
MOST_CHARACTERS = 2000
"""Of an error, which every record of such a request keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRequest:
    """What one request is, as it was drawn before it was sent.

    Attributes:
        workload: the number of its workload.
        input: the number of its input.
        cancel: whether it is to be cancelled.
    """

    workload: int
    input: int
    cancel: bool = False


class InFlightRequest:
    """A request in flight; a transport notes what comes.

    Attributes:
        plan: what it is.
        scheduled_s: when it was to be sent, in seconds since the run began.
        text: of its first answer, as far as it came.
        finish_reason: of that answer; empty as long as none came.
        input_tokens: of the request, where the server says it with the answer.
        outputs: reads the tensors of a whole answer; None where there is none.
        cancel: cancels it on the server; None where it cannot.
        cancel_after: as soon as so many tokens came.
        token_count: of the tokens that came.
        outcome: once it is known.
        error: in one line.
        last_s: when something happened last, by the monotonic clock.
        sent_s: when it was sent, in seconds since the run began; 0 before.
    """

    __slots__ = (
        *("_number", "_started_s", "cancel", "cancel_after", "error", "finish_reason", "input_tokens", "last_s"),
        *("outcome", "outputs", "plan", "responses_s", "scheduled_s", "sent_s", "text", "token_count", "tokens"),
    )

    def __init__(self, number: int, plan: PlannedRequest, scheduled_s: float, started_s: float) -> None:
        """Begin.

        Args:
            number: in the order of the scheduled times.
            plan: what it is.
            scheduled_s: seconds since the run began.
            started_s: when the run began, by the monotonic clock.
        """
        self._number, self._started_s = number, started_s
        self.plan, self.scheduled_s, self.sent_s = plan, scheduled_s, 0.0
        self.last_s = monotonic()
        self.responses_s: list[float] = []
        self.tokens: list[int] = []
        self.token_count = self.input_tokens = 0
        self.cancel_after: int | None = None
        self.text, self.finish_reason = "", ""
        self.outputs: Callable[[], Outputs] | None = None
        self.cancel: Callable[[], None] | None = None
        self.outcome: RequestOutcome | None = None
        self.error = ""

    def mark_sent(self) -> None:
        """Note that it is sent now."""
        self.last_s = monotonic()
        self.sent_s = self.last_s - self._started_s

    def add_response(self, tokens: int = 0) -> None:
        """Note that a response with so many tokens has come."""
        self.last_s = monotonic()
        self.responses_s.append(self.last_s - self._started_s)
        self.tokens.append(tokens)
        self.token_count += tokens
        if self.cancel_after is not None and self.token_count >= self.cancel_after:
            self.abort(RequestOutcome.CANCELLED)

    def fail(self, outcome: RequestOutcome, error: str) -> None:
        """Note what went wrong, unless its outcome is known already."""
        if self.outcome is None:
            self.outcome, self.error = outcome, " ".join(error[:MOST_CHARACTERS].split())

    def abort(self, outcome: RequestOutcome, error: str = "") -> None:
        """Cancel it, unless its outcome is known already."""
        if self.outcome is None:
            self.outcome, self.error = outcome, error
            if self.cancel is not None:
                self.cancel()

    def to_record(self, workload: str, request_input: RequestInput) -> RequestRecord:
        """The record of it; it ends now."""
        return RequestRecord(
            number=self._number,
            workload=workload,
            scheduled_s=self.scheduled_s,
            sent_s=self.sent_s,
            ended_s=monotonic() - self._started_s,
            responses_s=tuple(self.responses_s),
            tokens=tuple(self.tokens),
            input_tokens=self.input_tokens or request_input.input_tokens,
            images=request_input.images,
            outcome=self.outcome or RequestOutcome.OK,
            error=self.error,
        )
