"""What changes logits before a token is chosen, be it drawn or not: biases, penalties, tokens that may not come.

They stand in the order of transformers' ``generate``; OpenAI's two penalties follow the repetition penalty.

Legend: V vocabulary, N tokens.
Sources: transformers' ``logits_process.py``; presence and frequency penalty: OpenAI's API reference,
``logit − presence·[count > 0] − frequency·count``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from attendant.errors import InputError
from attendant.sampling_params import SamplingParams
from serving.engine.sampling.token_rules import TokenRules
from serving.runtime.base import Array


class History:
    """One sequence so far.

    Attributes:
        length: of the answer, in tokens.
    """

    def __init__(self, prompt: Sequence[int]) -> None:
        self._prompt_N = np.unique(np.asarray(prompt, dtype=np.int64))
        self._counts: Counter[int] = Counter()
        self.length = 0

    def add(self, token: int) -> None:
        """The answer has one more token."""
        self._counts[token] += 1
        self.length += 1

    def fork(self) -> History:
        """Another sequence that is the same so far."""
        other = copy(self)
        other._counts = self._counts.copy()
        return other

    def answer(self) -> tuple[Array, Array]:
        """The different tokens of the answer, and how often each stands there: int64 ``[N]`` each."""
        return _ids(self._counts), np.fromiter(self._counts.values(), np.int64, len(self._counts))

    def tokens(self) -> Array:
        """The tokens of prompt and answer, int64 ``[N]``; one of both stands there twice."""
        return np.concatenate([self._prompt_N, _ids(self._counts)])


class LogitsProcessor(Protocol):
    """One change of the logits."""

    def applies(self, history: History) -> bool:
        """Whether it changes anything for the token that comes next."""

    def __call__(self, logits_V: Array, history: History) -> None:
        """Change float64 logits in place.

        Raises:
            InputError: what was requested does not fit this vocabulary.
        """


@dataclass(frozen=True, slots=True)
class LogitBias:
    """Add to the logits of some tokens.

    Raises:
        InputError: a bias is no number; a token is outside the vocabulary (when the logits come).
    """

    ids: Array
    biases: Array

    def __post_init__(self) -> None:
        if not np.isfinite(self.biases).all():
            raise InputError(
                "logit biases that are numbers", str(self.biases.tolist()), "correct logit_bias", param="logit_bias"
            )

    def applies(self, history: History) -> bool:
        return True

    def __call__(self, logits_V: Array, history: History) -> None:
        outside = self.ids[(self.ids < 0) | (self.ids >= logits_V.size)]
        if outside.size:
            raise InputError(
                f"logit_bias for tokens 0 to {logits_V.size - 1}",
                str(outside.tolist()),
                "leave them out",
                param="logit_bias",
            )
        logits_V[self.ids] += self.biases


@dataclass(frozen=True, slots=True)
class RepetitionPenalty:
    """Divide the logits of tokens of prompt and answer, or multiply them where they are negative."""

    penalty: float

    def applies(self, history: History) -> bool:
        return True

    def __call__(self, logits_V: Array, history: History) -> None:
        ids_N = _within(history.tokens(), logits_V)
        seen_N = logits_V[ids_N]
        logits_V[ids_N] = np.where(seen_N < 0, seen_N * self.penalty, seen_N / self.penalty)


@dataclass(frozen=True, slots=True)
class CountPenalty:
    """Take from the logits of the answer's tokens: once a token, and once for each time it stands there."""

    presence: float
    frequency: float

    def applies(self, history: History) -> bool:
        return history.length > 0

    def __call__(self, logits_V: Array, history: History) -> None:
        ids_N, counts_N = history.answer()
        logits_V[ids_N] -= self.presence + self.frequency * counts_N


@dataclass(frozen=True, slots=True)
class Banned:
    """Tokens that may not come, at all or before the answer has some length."""

    ids: Array
    until: float = math.inf

    def applies(self, history: History) -> bool:
        return self.ids.size > 0 and history.length < self.until

    def __call__(self, logits_V: Array, history: History) -> None:
        logits_V[_within(self.ids, logits_V)] = -np.inf


@dataclass(frozen=True, slots=True)
class ForcedFirst:
    """The token that every answer begins with: its logit is 0, and no other may come."""

    token: int

    def applies(self, history: History) -> bool:
        return history.length == 0

    def __call__(self, logits_V: Array, history: History) -> None:
        logits_V.fill(-np.inf)
        logits_V[self.token] = 0


def create_processors(options: SamplingParams, rules: TokenRules) -> tuple[LogitsProcessor, ...]:
    """What a request and a checkpoint change in the logits, in order.

    Raises:
        InputError: a bias is no number.
    """
    bias = options.logit_bias
    end = rules.end | set(options.stop_token_ids)
    biases_N = np.fromiter(bias.values(), np.float64, len(bias))
    candidates: list[tuple[object, LogitsProcessor]] = [
        (bias, LogitBias(_ids(bias), biases_N)),
        (options.repetition_penalty != 1, RepetitionPenalty(options.repetition_penalty)),
        (
            options.presence_penalty or options.frequency_penalty,
            CountPenalty(options.presence_penalty, options.frequency_penalty),
        ),
        (options.min_tokens, Banned(_ids(end), options.min_tokens)),
        (rules.never, Banned(_ids(rules.never))),
        (rules.first is not None, ForcedFirst(rules.first or 0)),
    ]
    return tuple(processor for applies_ever, processor in candidates if applies_ever)


def _ids(tokens: Iterable[int]) -> Array:
    return np.fromiter(tokens, np.int64)


def _within(ids_N: Array, logits_V: Array) -> Array:
    return ids_N[(ids_N >= 0) & (ids_N < logits_V.size)]
