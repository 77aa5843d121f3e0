"""Greedy decoding over a cache that is written in place: one prefill, then one token a step.

Legend: V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.tensor_names import LOGITS
from serving.runtime.base import Array
from serving.runtime.cached_decoder import CachedDecoder


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """What a checkpoint says of its tokens, beyond their probabilities.

    Attributes:
        end: the tokens that end an answer.
        first: the token that every answer begins with, whatever the model says.
        never: tokens that are never chosen.
    """

    end: frozenset[int] = frozenset()
    first: int | None = None
    never: tuple[int, ...] = ()

    @classmethod
    def of(cls, details: Mapping[str, Any]) -> TokenRules:
        """The rules among a manifest's details.

        They are ``end_token`` or ``end_tokens``, ``forced_start_token`` and ``suppressed_tokens``.
        """
        end = {int(token) for token in details.get("end_tokens", ())}
        if "end_token" in details:
            end.add(int(details["end_token"]))
        never = tuple(int(token) for token in details.get("suppressed_tokens", ()))
        return cls(end=frozenset(end), first=details.get("forced_start_token"), never=never)

    def choose(self, logits_V: Array, count: int) -> int:
        """The most probable token that the rules allow, after ``count`` others."""
        if count == 0 and self.first is not None:
            return self.first
        if self.never:
            logits_V = logits_V.copy()
            logits_V[list(self.never)] = -np.inf
        return int(logits_V.argmax())


def greedy(decoder: CachedDecoder, prompt: Sequence[int], rules: TokenRules, max_tokens: int) -> Iterator[int]:
    """The most probable next token, again and again.

    Args:
        decoder: one row, with nothing in its cache yet.
        prompt: what is to be continued, at least one token; it takes its positions of the cache.
        rules: of the checkpoint.
        max_tokens: longest answer.

    Yields:
        The new tokens; an end token, if one comes, is the last.
    """
    new, position = list(prompt), 0
    for count in range(max_tokens):
        last = np.array([[len(new) - 1]])
        scores = decoder.step(np.array([new], dtype=np.int64), np.array([position], dtype=np.int64), last)[LOGITS]
        position += len(new)
        token = rules.choose(scores[0, -1], count)
        yield token
        if token in rules.end:
            return
        new = [token]
