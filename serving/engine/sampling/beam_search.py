"""Beam search without a model: logits come in, and which row goes on with which token comes out.

A beam's total is the sum of its tokens' log-probabilities, as processors leave these. Every step ranks all that the
running beams may go on with. Those of the best W that end become hypotheses, of which the best W are kept by their

    score = total / length ** length_penalty        length counts the new tokens, the end token among them;

the best W of those that do not end run on. Equal totals stand in the order of their beams, then of their tokens.

Legend: W beams, R rows of logits (1 or W after the prefill, then W), V vocabulary, K ranked continuations, N of them.
Source: ``_beam_search`` of transformers 5.23.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from attendant.errors import InputError
from attendant.sampling_params import SamplingParams
from serving.engine.sampling.logits_processors import History, create_processors
from serving.engine.sampling.sampler import kth_largest, log_softmax, require_numbers
from serving.engine.sampling.token_rules import TokenRules
from serving.runtime.base import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """What the running beams do next.

    Attributes:
        parents: the row that each beam goes on from, int64 ``[W]``.
        tokens: the token that it goes on with, int64 ``[W]``.
    """

    parents: Array
    tokens: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """An answer that has ended.

    Attributes:
        tokens: without the prompt and without the end token.
        score: its total, divided by its length to the power of the length penalty.
        finish_reason: ``stop`` after an end token, ``length`` at the limit.
    """

    tokens: tuple[int, ...]
    score: float
    finish_reason: Literal["stop", "length"]


class BeamSearch:
    """The search of one request."""

    def __init__(self, options: SamplingParams, rules: TokenRules, prompt: Sequence[int], max_new_tokens: int) -> None:
        """Begin with one beam, the prompt.

        Args:
            options: of the request.
            rules: of the checkpoint.
            prompt: the tokens that the decoder is given first: a language model's prompt, a translator's start token.
            max_new_tokens: longest answer, the end token counted.

        Raises:
            InputError: a logit bias is no number.
        """
        self._options, self._limit, self._width = options, max_new_tokens, options.beam_width
        self._processors = create_processors(options, rules)
        self._end = np.array(sorted(rules.end | set(options.stop_token_ids)), dtype=np.int64)
        self._histories = [History(prompt)]
        self._answers: list[tuple[int, ...]] = [()]
        self._totals_R = np.zeros(1)
        self._ended: list[Hypothesis] = []
        self._length = 0

    def advance(self, logits_RV: Sequence[Array] | Array) -> Advance | None:
        """Take the logits of the next token.

        Args:
            logits_RV: of the running beams, in the order of the last ``Advance``; at first of the prompt, once or W
                times.

        Returns:
            How the beams run on, or None if the search is over.

        Raises:
            InputError: the logits are no numbers, a bias does not fit this vocabulary, or no token may come.
        """
        # So many that W do not end, however many do.
        count = max(2, 1 + len(self._end)) * self._width
        rows = zip(logits_RV[: len(self._answers)], self._histories, strict=True)
        best = [self._best(logits_V, history, count) for logits_V, history in rows]
        parents_C = np.repeat(np.arange(len(best)), [len(tokens) for tokens, _ in best])
        tokens_C = np.concatenate([tokens for tokens, _ in best])
        totals_C = np.concatenate([scores for _, scores in best]) + self._totals_R[parents_C]
        first = np.argsort(-totals_C, kind="stable")[:count]
        first = first[totals_C[first] > -np.inf]
        parents_K, tokens_K, totals_K = parents_C[first], tokens_C[first], totals_C[first]
        self._length += 1
        stops_K = np.isin(tokens_K, self._end)
        ends_K = stops_K | (self._length == self._limit)
        for place in np.flatnonzero(ends_K[: self._width]):
            stops = bool(stops_K[place])
            tokens = self._answers[parents_K[place]] + (() if stops else (int(tokens_K[place]),))
            score = self._score(float(totals_K[place]), self._length)
            self._ended.append(Hypothesis(tokens=tokens, score=score, finish_reason="stop" if stops else "length"))
        self._ended = sorted(self._ended, key=lambda one: -one.score)[: self._width]
        onward_N = np.flatnonzero(~ends_K)[: self._width]
        if len(onward_N) == 0 and not self._ended:
            place = f"none as token {self._length}"
            raise InputError("a token that the request lets come", place, "ask for less in logit_bias and min_tokens")
        if len(onward_N) == 0 or not self._can_improve(float(totals_K[onward_N[0]])):
            return None
        return self._run_on(parents_K[onward_N], tokens_K[onward_N], totals_K[onward_N])

    def best(self) -> list[Hypothesis]:
        """The best ended answers, best first.

        They are as many as the options ask for; fewer where no more answers are possible, as of one token that is
        given.
        """
        return self._ended[: self._options.n]

    def _best(self, logits_V: Array, history: History, count: int) -> tuple[Array, Array]:
        """The tokens of at least so many of a row's best scores, in their order, and these."""
        require_numbers(float(logits_V.max()), self._length)
        scores_V = log_softmax(logits_V.astype(np.float64))
        for processor in self._processors:
            if processor.applies(history):
                processor(scores_V, history)
        tokens_N = np.flatnonzero(scores_V >= kth_largest(scores_V, count))
        return tokens_N, scores_V[tokens_N]

    def _can_improve(self, best_total: float) -> bool:
        early = self._options.early_stopping
        if len(self._ended) < self._width:
            return True
        length = self._limit if early == "never" and self._options.length_penalty > 0 else self._length
        return early != "yes" and self._score(best_total, length) > self._ended[-1].score

    def _score(self, total: float, length: int) -> float:
        return total / math.pow(length, self._options.length_penalty)

    def _run_on(self, parents_N: Array, tokens_N: Array, totals_N: Array) -> Advance:
        # Where fewer than W can, the rows that are left over follow any beam, and nothing comes of them.
        left_over = self._width - len(parents_N)
        parents_W, tokens_W = (np.append(one, np.zeros(left_over, np.int64)) for one in (parents_N, tokens_N))
        self._totals_R = np.append(totals_N, np.full(left_over, -np.inf))
        beams = list(zip(parents_W.tolist(), tokens_W.tolist(), strict=True))
        self._answers = [(*self._answers[parent], token) for parent, token in beams]
        self._histories = [self._histories[parent].fork() for parent in parents_W]
        for history, token in zip(self._histories, tokens_W.tolist(), strict=True):
            history.add(token)
        return Advance(parents=parents_W, tokens=tokens_W)
