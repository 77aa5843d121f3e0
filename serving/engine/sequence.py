"""One sequence that is being decoded, and the request that it belongs to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from attendant.errors import AttendantError
from serving.engine.output.writer import Writer
from serving.engine.request import Request, RequestOutput
from serving.engine.sampling.beam_search import BeamSearch
from serving.engine.sampling.lookup import Lookup
from serving.engine.sampling.sampler import SampledToken, Sampler
from serving.runtime.base import Array

Sink = Callable[[RequestOutput | AttendantError], None]
"""Takes the pieces of an answer as they come; an error is the last that it gets."""


class Ticket:
    """A request that was handed to an engine.

    Attributes:
        request: what is asked.
        arrived_s: when, by the engine's clock.
    """

    def __init__(self, request: Request, sink: Sink, arrived_s: float) -> None:
        self.request, self.sink, self.arrived_s = request, sink, arrived_s
        limit_ms = request.options.deadline_ms
        self.deadline_s = None if limit_ms is None else self.arrived_s + limit_ms / 1e3
        self.memories: Mapping[str, Array] | None = {} if not request.source else None
        self._taken_back = threading.Event()

    def cancel(self) -> None:
        """Take the request back; from any thread."""
        self._taken_back.set()

    @property
    def is_cancelled(self) -> bool:
        """Whether it was taken back."""
        return self._taken_back.is_set()

    def is_late(self, now_s: float) -> bool:
        """Whether its time is over, by the engine's clock."""
        return self.deadline_s is not None and now_s > self.deadline_s


@dataclass(slots=True, kw_only=True, eq=False)
class Sequence:
    """One row of the slots.

    Attributes:
        group: the request that it belongs to.
        candidate: which of its answers.
        tokens: prompt and answer.
        sampler: picks the next token; a beam has none.
        writer: makes text of tokens.
        ends: the tokens that end it.
        row: of the slots.
        cached: how many of the tokens the cache holds.
        drafts: tokens guessed for the next step.
        logits: of the latest step, of a beam, ``[1, V]``.
        is_over: whether its answer is complete.
    """

    group: Group
    candidate: int
    tokens: list[int]
    sampler: Sampler
    writer: Writer
    ends: frozenset[int]
    lookup: Lookup | None = None
    row: int = -1
    cached: int = 0
    drafts: list[int] = field(default_factory=list)
    logits: Array | None = None
    is_over: bool = False

    @property
    def pending(self) -> int:
        """How many tokens the cache does not hold yet: 1 while it is decoded one by one, more of a prompt."""
        return len(self.tokens) - self.cached

    @property
    def answered(self) -> int:
        """How many tokens the answer has."""
        return len(self.tokens) - len(self.group.ticket.request.prompt)

    def take(self, choice: SampledToken) -> None:
        """Add a token to the answer."""
        self.tokens.append(choice.token)
        if self.lookup is not None:
            self.lookup.add(choice.token)


@dataclass(slots=True, kw_only=True, eq=False)
class Group:
    """A request that has slots.

    Attributes:
        ticket: the request.
        source_length: how many positions its own source has, of those the rows are laid out for.
        sequences: of its rows; one until its prompt is done.
        search: of beams.
        first_s, last_s: when its first and its latest token came, by the engine's clock.
    """

    ticket: Ticket
    source_length: int = 0
    sequences: list[Sequence] = field(default_factory=list)
    search: BeamSearch | None = None
    unfinished: int = 0
    first_s: float | None = None
    last_s: float = 0.0

    @property
    def rows(self) -> int:
        """How many slots it takes."""
        return self.ticket.request.options.sequences


def padded(sequences: list[Sequence], width: int) -> Array:
    """The tokens of each sequence that come next, int64 ``[B, width]``, filled up with the first of them."""
    tokens_BT = np.empty((len(sequences), width), dtype=np.int64)
    for row, sequence in enumerate(sequences):
        coming = sequence.tokens[sequence.cached : sequence.cached + width] + sequence.drafts
        tokens_BT[row, : len(coming)] = coming[:width]
        tokens_BT[row, len(coming) :] = coming[0]
    return tokens_BT
