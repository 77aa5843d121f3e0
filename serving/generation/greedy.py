"""Greedy decoding over a cache that is written in place: one prefill, then one token a step.

Legend: B batch (here 1), S source positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from serving.runtime.base import Runner
from serving.runtime.cached_decoder import CachedDecoder


def greedy(
    runners: Mapping[str, Runner], source_ids: Sequence[int], start_token: int, end_token: int, max_tokens: int
) -> Iterator[int]:
    """The most probable next token, again and again.

    The source is encoded, and its cross-attention keys and values are computed, once.

    Args:
        runners: the graphs ``encoder`` and ``decoder``.
        source_ids: S token ids.
        start_token: what every answer begins with; it takes one position of the cache.
        end_token: what ends an answer.
        max_tokens: longest answer.

    Yields:
        The new tokens; the end token, if it comes, is the last.
    """
    source_BS = np.array([source_ids], dtype=np.int64)
    mask_BS = np.ones_like(source_BS, dtype=bool)
    crosses = runners["encoder"].run({"source_ids": source_BS, "source_mask": mask_BS})
    decoder = CachedDecoder(runners["decoder"], crosses, mask_BS)
    token = start_token
    for position in range(max_tokens):
        logits_BTV = decoder.step(np.array([[token]], dtype=np.int64), np.array([position], dtype=np.int64))
        token = int(logits_BTV[0, -1].argmax())
        yield token
        if token == end_token:
            return
