"""One token after another for one sequence: processors, then the most probable token or a drawn one.

A draw is the inverse of the cumulative distribution at one uniform number, in the order of the vocabulary. The number
is the first of Philox with key (seed, candidate) and counter position: it depends on nothing else, least of all on
other sequences, so that a request's answer is the same in any batch, and whether its tokens were guessed first or not.

Legend: V vocabulary, C tokens that are left to sample from.
Source: J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011 (Philox).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from attendant.errors import InputError
from attendant.sampling_params import SamplingParams
from serving.engine.sampling.logits_processors import History, create_processors
from serving.engine.sampling.token_guide import TokenGuide
from serving.engine.sampling.token_rules import TokenRules
from serving.runtime.base import Array

Filter = Callable[[Array], Array]  # float64 logits_C, of which some may be −inf → kept_C, bool


def top_k(k: int, logits_C: Array) -> Array:
    """The k most probable tokens, and those as probable as the last of them."""
    return np.asarray(logits_C >= kth_largest(logits_C, k))


def top_p(mass: float, logits_C: Array) -> Array:
    """The most probable tokens that together have this probability, the one that reaches it included."""
    p_C = softmax(logits_C)
    likely = p_C >= (1 - mass) / p_C.size  # the others have less than 1 − mass together: none is kept
    last = crossing(logits_C[likely], p_C[likely], 1 - mass - p_C[~likely].sum())
    kept_C, equal = np.asarray(logits_C > last), np.flatnonzero(logits_C == last)
    below = p_C[logits_C < last].sum()
    kept_C[equal[below + p_C[equal].cumsum() > 1 - mass]] = True
    kept_C[equal[-1]] = True
    return kept_C


def min_p(share: float, logits_C: Array) -> Array:
    """The tokens at least this share as probable as the most probable one."""
    p_C = softmax(logits_C)
    return np.asarray(p_C >= share * p_C.max())


def typical_p(mass: float, logits_C: Array) -> Array:
    """The tokens whose surprise is closest to the expected one, of this probability together."""
    log_p_C = log_softmax(logits_C)
    p_C = np.exp(log_p_C)
    expected = -(p_C * np.where(p_C > 0, log_p_C, 0)).sum()
    distance_C = np.abs(-log_p_C - expected)
    return np.asarray(distance_C <= crossing(distance_C, p_C, np.nextafter(mass, 0)))


def create_filters(options: SamplingParams) -> tuple[Filter, ...]:
    """What a request leaves to sample from, in order."""
    candidates: list[tuple[bool, Filter]] = [
        (options.top_k > 0, partial(top_k, options.top_k)),
        (options.top_p < 1, partial(top_p, options.top_p)),
        (options.min_p > 0, partial(min_p, options.min_p)),
        (options.typical_p < 1, partial(typical_p, options.typical_p)),
    ]
    return tuple(keep for applies_ever, keep in candidates if applies_ever)


def divide_by_temperature(logits_V: Array, temperature: float) -> None:
    """Divide logits in place, less what makes the largest 0, so that none overflows."""
    logits_V -= logits_V.max()
    with np.errstate(over="ignore"):  # to −inf, where the probability is 0
        logits_V /= temperature


def kth_largest(values_C: Array, k: int) -> float:
    """The k-th largest value; the smallest if there are fewer."""
    block = values_C.size // (4 * k)
    if block > 1:  # k of the blocks have a largest that is not below the k-th of these; few other values are not
        largest = np.maximum.reduceat(values_C, np.arange(0, values_C.size, block))
        values_C = values_C[values_C >= np.partition(largest, -k)[-k]]
    at = max(values_C.size - k, 0)
    return float(np.partition(values_C, at)[at])


def crossing(keys_C: Array, weights_C: Array, mass: float) -> float:
    """The least key such that the keys up to it weigh more than a mass; the largest with a weight, if all do not.

    By histograms, of finer and finer bins: to sort a large vocabulary would hold up every other request.
    """
    heavy, below = weights_C > 0, 0.0
    keys_C, weights_C = keys_C[heavy], weights_C[heavy]
    for _ in range(_HISTOGRAMS):
        low, high = float(keys_C.min()), float(keys_C.max())
        if keys_C.size <= _SORTED or not np.finfo(float).tiny < high - low < np.inf:
            break
        bins_C = ((keys_C - low) * ((_BINS - 1) / (high - low))).astype(np.int32)
        cumulative = below + np.bincount(bins_C, weights_C, _BINS).cumsum()
        crossed = int(cumulative.searchsorted(mass, side="right"))
        if crossed == _BINS:
            return high
        below = float(cumulative[crossed - 1]) if crossed else below
        inside = bins_C == crossed
        keys_C, weights_C = keys_C[inside], weights_C[inside]
    rising = keys_C.argsort(kind="stable")
    place = int((below + weights_C[rising].cumsum() <= mass).sum())
    return float(keys_C[rising[min(place, rising.size - 1)]])


def softmax(logits_C: Array) -> Array:
    p_C = np.asarray(logits_C - logits_C.max())
    np.exp(p_C, out=p_C)
    p_C /= p_C.sum()
    return p_C


def log_softmax(logits_C: Array) -> Array:
    log_p_C = np.asarray(logits_C - logits_C.max())
    log_p_C -= np.log(np.exp(log_p_C).sum())
    return log_p_C


_HISTOGRAMS, _BINS, _SORTED = 4, 4096, 1024  # of so few keys, a sort is as fast
_BLOCK = 512  # weights that are summed at once


@dataclass(frozen=True, slots=True)
class SampledToken:
    """A token, and what the model thought of it.

    Attributes:
        token: that was chosen.
        logprob: its log-probability under the model, before anything that the request asks for; only if requested.
        top: the most probable tokens with theirs, most probable first; as many as were requested.
    """

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


class Sampler:
    """The choices of one sequence."""

    def __init__(
        self,
        options: SamplingParams,
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

    @property
    def is_complete(self) -> bool:
        """Whether the answer has the form that a guide asks for, and nothing can follow."""
        return self._guide is not None and self._guide.is_complete

    def take(self, token: int) -> None:
        """The answer has one more token; :meth:`sample` adds its own.

        Raises:
            InputError: the guide does not allow it.
        """
        if self._guide is not None and not self._is_forced:
            self._guide.take(token)
        self._history.add(token)

    def sample(self, logits_V: Array) -> SampledToken:
        """The answer's next token, by the logits float32 ``[V]`` behind its last.

        Raises:
            InputError: the logits are no numbers, or no token may come.
        """
        require_numbers(float(logits_V.max()), self._history.length)
        processed_V = logits_V.astype(np.float64)
        for processor in self._processors:
            if processor.applies(self._history):
                processor(processed_V, self._history)
        if self._guide is not None and not self._is_forced:
            processed_V[~self._guide.allowed()] = -np.inf
        token = self._next(processed_V)
        self.take(token)
        if not self._options.logprobs:
            return SampledToken(token)
        return score_token(token, logits_V, self._options.top_logprobs)

    @property
    def _is_forced(self) -> bool:
        return self._history.length == 0 and self._first is not None

    def _next(self, logits_V: Array) -> int:
        # It works in place: of 50,000 logits the pages of a new array cost more than the numbers.
        if logits_V.max() == -np.inf:
            place = f"none as token {self._history.length + 1}"
            raise InputError("a token that the request lets come", place, "ask for less in guide, bias and min_tokens")
        if self._options.temperature == 0:
            return int(logits_V.argmax())
        divide_by_temperature(logits_V, self._options.temperature)
        if not self._filters:
            return inverse_cdf(np.exp(logits_V, out=logits_V), self._uniform())
        first, *others = self._filters
        tokens_C = np.flatnonzero(first(logits_V))
        for keep in others:
            tokens_C = tokens_C[keep(logits_V[tokens_C])]
        return int(tokens_C[inverse_cdf(np.exp(logits_V[tokens_C]), self._uniform())])

    def _uniform(self) -> float:
        philox = np.random.Philox(key=self._key, counter=self._history.length)
        return np.random.Generator(philox).random()


def score_token(token: int, logits_V: Array, top: int) -> SampledToken:
    """A token with its log-probability under the logits float32 ``[V]`` before it, and so many most probable ones."""
    logprobs_V = log_softmax(logits_V.astype(np.float64))
    return SampledToken(token, float(logprobs_V[token]), _top(logprobs_V, top))


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
    blocks = np.add.reduceat(weights_C, np.arange(0, weights_C.size, _BLOCK))  # ten times as fast as one cumulative sum
    block, rest = _search_share(blocks, uniform * blocks.sum())
    begin = block * _BLOCK
    return begin + _search_share(weights_C[begin : begin + _BLOCK], rest)[0]


def _search_share(weights: Array, share: float) -> tuple[int, float]:
    cumulative = weights.cumsum()
    # The sum may be less than the share by its rounding; what is last is then the last of some weight.
    index = min(int(cumulative.searchsorted(share, side="right")), int(cumulative.searchsorted(cumulative[-1])))
    return index, share - (float(cumulative[index - 1]) if index else 0.0)


def _top(logprobs_V: Array, count: int) -> tuple[tuple[int, float], ...]:
    if count == 0:
        return ()
    tokens = np.flatnonzero(logprobs_V >= kth_largest(logprobs_V, count))
    order = np.argsort(-logprobs_V[tokens], kind="stable")[:count]
    return tuple((int(token), float(logprobs_V[token])) for token in tokens[order])
