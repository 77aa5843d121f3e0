"""Records → columns of numbers: what each request of a span of time took, in seconds."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from clients.load.record import RequestOutcome, RequestRecord

Values = NDArray[np.float64]
ANSWERED = (RequestOutcome.OK, RequestOutcome.DEADLINE_EXCEEDED)
"""Requests whose times count. One whose deadline passed counts with the time that it was given, which it would have
exceeded: left out, it would make the others look like all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySamples:
    """What requests took, in the order of their scheduled times; seconds, and nan where a request has no such figure.

    Attributes:
        scheduled_s: when they were meant to be sent, since the run began.
        request_latency: sent → ended.
        effective_latency: scheduled → ended: what a user waits who does not know that the generator was late.
        credit_to_start_latency: scheduled → sent, the send lag.
        time_to_first_token: sent → first response.
        effective_time_to_first_token: scheduled → first response.
        time_to_second_token: first response → second.
        inter_token_latency: first response → last, by tokens after the first response.
        output_sequence_length: tokens of the answer.
        input_sequence_length: tokens of the question.
    """

    scheduled_s: Values
    request_latency: Values
    effective_latency: Values
    credit_to_start_latency: Values
    time_to_first_token: Values
    effective_time_to_first_token: Values
    time_to_second_token: Values
    inter_token_latency: Values
    output_sequence_length: Values
    input_sequence_length: Values

    def __len__(self) -> int:
        return len(self.scheduled_s)


def samples(records: Iterable[RequestRecord]) -> LatencySamples:
    """Columns of the requests whose times count."""
    counted = sorted((one for one in records if one.outcome in ANSWERED), key=lambda one: one.scheduled_s)
    return LatencySamples(
        **{
            name: np.fromiter(map(_FIGURES[name], counted), dtype=np.float64, count=len(counted))
            for name in (field.name for field in fields(LatencySamples))
        }
    )


def gaps(records: Iterable[RequestRecord]) -> Values:
    """Seconds between one response and the next of the same request, of all requests that succeeded."""
    found = [
        np.diff(one.responses_s) for one in records if one.outcome is RequestOutcome.OK and len(one.responses_s) > 1
    ]
    return np.concatenate(found) if found else np.empty(0)


def _is_streamed(one: RequestRecord) -> bool:
    return sum(one.tokens) > 0 and bool(one.responses_s)


def _first(since: Callable[[RequestRecord], float]) -> Callable[[RequestRecord], float]:
    def figure(one: RequestRecord) -> float:
        if _is_streamed(one):
            return one.responses_s[0] - since(one)
        # Late before its first token: that came later still.
        return (
            one.ended_s - since(one)
            if one.outcome is RequestOutcome.DEADLINE_EXCEEDED and not one.responses_s
            else np.nan
        )

    return figure


_FIGURES: dict[str, Callable[[RequestRecord], float]] = {
    "scheduled_s": lambda one: one.scheduled_s,
    "request_latency": lambda one: one.ended_s - one.sent_s,
    "effective_latency": lambda one: one.ended_s - one.scheduled_s,
    "credit_to_start_latency": lambda one: one.sent_s - one.scheduled_s,
    "time_to_first_token": _first(lambda one: one.sent_s),
    "effective_time_to_first_token": _first(lambda one: one.scheduled_s),
    "time_to_second_token": lambda one: (
        one.responses_s[1] - one.responses_s[0] if _is_streamed(one) and len(one.responses_s) > 1 else np.nan
    ),
    "inter_token_latency": lambda one: (
        (one.responses_s[-1] - one.responses_s[0]) / later
        if _is_streamed(one) and (later := sum(one.tokens[1:]))
        else np.nan
    ),
    "output_sequence_length": lambda one: float(sum(one.tokens)) or np.nan,
    "input_sequence_length": lambda one: float(one.input_tokens) or np.nan,
}
