"""One token after another for one sequence: processors, then the most probable token or a drawn one.

A draw is the inverse of the cumulative distribution at one uniform number, in the order of the vocabulary. The number
is the first of Philox with key (seed, candidate) and counter position: it depends on nothing else, least of all on
other sequences, so that a request's answer is the same in any batch, and whether its tokens were guessed first or not.

Legend: V vocabulary, C tokens that are left to sample from.
Source: J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011 (Philox).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.errors import InputError
from serving.generation.guide import TokenGuide
from serving.generation.logits_processors import History, create_processors
from serving.generation.options import DecodingOptions
from serving.generation.token_rules import TokenRules
from serving.generation.warpers import create_filters, divide_by_temperature, log_softmax
from serving.runtime.base import Array


@dataclass(frozen=True, slots=True)
class Choice:
    """A token, and what the model thought of it.

    Attributes:
        token: that was chosen.
        logprob: its log-probability under the model, before anything that the request asks for; only if asked for.
        top: the most probable tokens with theirs, most probable first; as many as were asked for.
    """

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


class TokenChooser:
    """The choices of one sequence."""

    def __init__(
        self,
        options: DecodingOptions,
        rules: TokenRules,
        prompt: Sequence[int],
        *,
        seed: int,
        candidate: int = 0,
        guide: TokenGuide | None = None,
    ) -> None:
        """Begin an answer.

        Args:
            options: of the request; not of a beam search.
            rules: of the checkpoint.
            prompt: the tokens that the decoder is given first: a language model's prompt, a translator's start token.
            seed: of the request.
            candidate: which of the request's answers this is, from 0.
            guide: which tokens may come, if the request has one; the checkpoint's forced first token is none of its.

        Raises:
            InputError: a logit bias is no number.
        """
        self._options = options
        self._first = rules.first
        self._processors = create_processors(options, rules)
        self._filters = create_filters(options)
        self._guide = guide
        self._history = History(prompt)
        self._key = np.array([seed, candidate], dtype=np.uint64)

    @property
    def is_plain(self) -> bool:
        """Whether the next choice is the largest logit and nothing else, so that it need not be made here."""
        options = self._options
        plain = options.is_greedy and not options.logprobs and self._guide is None
        return plain and not any(processor.applies(self._history) for processor in self._processors)

    def take(self, token: int) -> None:
        """The answer has one more token, which was chosen elsewhere."""
        if self._guide is not None and not self._is_forced:
            self._guide.take(token)
        self._history.add(token)

    def choose(self, logits_V: Array) -> Choice:
        """The answer's next token, by the logits float32 ``[V]`` behind its last.

        Raises:
            InputError: the logits are no numbers, or no token may come.
        """
        require_numbers(float(logits_V.max()), self._history.length)
        token = self._next(self._processed(logits_V.astype(np.float64)))
        self.take(token)
        if not self._options.logprobs:
            return Choice(token)
        logprobs_V = log_softmax(logits_V.astype(np.float64))
        return Choice(token, float(logprobs_V[token]), _top(logprobs_V, self._options.top_logprobs))

    @property
    def _is_forced(self) -> bool:
        return self._history.length == 0 and self._first is not None

    def _processed(self, logits_V: Array) -> Array:
        for processor in self._processors:
            if processor.applies(self._history):
                processor(logits_V, self._history)
        if self._guide is not None and not self._is_forced:
            logits_V[~self._guide.allowed()] = -np.inf
        return logits_V

    def _next(self, logits_V: Array) -> int:
        if logits_V.max() == -np.inf:
            place = f"none as token {self._history.length + 1}"
            raise InputError("a token that the request lets come", place, "ask for less in guide, bias and min_tokens")
        if self._options.temperature == 0:
            return int(logits_V.argmax())
        logits_V = divide_by_temperature(logits_V, self._options.temperature)
        tokens_C = np.flatnonzero(logits_V > -np.inf)
        for keep in self._filters:
            tokens_C = tokens_C[keep(logits_V[tokens_C])]
        return int(tokens_C[inverse_cdf(np.exp(logits_V[tokens_C]), self._uniform())])

    def _uniform(self) -> float:
        philox = np.random.Philox(key=self._key, counter=self._history.length)
        return np.random.Generator(philox).random()


def require_numbers(largest: float, position: int) -> None:
    """Refuse a row of logits by its largest, which is no number where any is none.

    Raises:
        InputError: it is infinite or no number.
    """
    if not np.isfinite(largest):
        place = f"a largest one of {largest} for token {position + 1}"
        raise InputError("logits that are numbers", place, "change the input, or check the model with the canary")


def inverse_cdf(weights_C: Array, uniform: float) -> int:
    """The index at which the cumulative weights pass this share of their sum; never one of weight 0."""
    cumulative_C = weights_C.cumsum()
    index = cumulative_C.searchsorted(uniform * cumulative_C[-1], side="right")
    return int(min(index, cumulative_C.searchsorted(cumulative_C[-1])))


def _top(logprobs_V: Array, count: int) -> tuple[tuple[int, float], ...]:
    if count == 0:
        return ()
    at = max(logprobs_V.size - count, 0)
    tokens = np.flatnonzero(logprobs_V >= np.partition(logprobs_V, at)[at])
    order = np.argsort(-logprobs_V[tokens], kind="stable")[:count]
    return tuple((int(token), float(logprobs_V[token])) for token in tokens[order])
