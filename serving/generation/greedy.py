"""Greedy decoding over a cache that is written in place: one prefill, then one token a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from models.tensor_names import LOGITS
from serving.generation.token_rules import TokenRules
from serving.runtime.cached_decoder import CachedDecoder


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
