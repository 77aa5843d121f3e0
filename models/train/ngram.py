"""An n-gram language model with interpolated, modified Kneser-Ney smoothing: the baseline of the small decoder.

    p_k(w | h) = (max(c(h w) − D(c(h w)), 0) + g(h) p_{k−1}(w | h′)) / c(h)        p_0 = 1 / V
    g(h) = D_1 N_1(h) + D_2 N_2(h) + D_3 N_3(h)        D_j = j − (j + 1) Y n_{j+1} / n_j        Y = n_1 / (n_1 + 2 n_2)

c counts the longest n-grams; of a shorter one it counts how many different tokens stand before it. N_j(h): how many
tokens follow h with count j (3: three or more); n_j: how many n-grams of that length have count j; h′: h without its
first token. D of a count above 3 is D_3. Where h was never seen, p_k is p_{k−1}. Where the n_j of a
length give no positive discounts, as when every single token is frequent, D_j is j / 2.

Legend: N tokens, G different n-grams, C different contexts, V vocabulary.
Source: Chen and Goodman 1999, "An Empirical Study of Smoothing Techniques for Language Modeling", section 3; KenLM's
``--discount_fallback`` (j / 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from attendant.config import require

Codes = NDArray[np.int64]  # n-grams as numbers with V as base, the newest token last
Numbers = NDArray[np.float64]
_Number = TypeVar("_Number", np.int64, np.float64)
LARGEST_CODE = 2**63 - 1
FALLBACK_DISCOUNTS = np.array([0.0, 0.5, 1.0, 1.5])


@dataclass(frozen=True, slots=True)
class _Order:
    """The n-grams of one length: what was seen, and how much each context passes on."""

    grams: Codes  # G, ascending
    counts: Codes  # G
    discounts: Numbers  # of counts 0, 1, 2, and 3 and more
    contexts: Codes  # C, ascending
    totals: Numbers  # C
    passed_on: Numbers  # C

    @classmethod
    def of(cls, grams_G: Codes, counts_G: Codes, vocabulary: int) -> _Order:
        discounts = _discounts(counts_G)
        contexts_C, context_of_G = np.unique(grams_G // vocabulary, return_inverse=True)
        totals_C: Numbers = np.bincount(context_of_G, counts_G).astype(np.float64)
        passed_on_C: Numbers = np.bincount(context_of_G, discounts[np.minimum(counts_G, 3)]).astype(np.float64)
        return cls(grams_G, counts_G, discounts, contexts_C, totals_C, passed_on_C)

    def probabilities(self, grams_N: Codes, lower_N: Numbers, vocabulary: int) -> Numbers:
        counts_N = _looked_up(self.grams, self.counts, grams_N)
        kept_N = np.maximum(counts_N - self.discounts[np.minimum(counts_N, 3)], 0)
        totals_N = _looked_up(self.contexts, self.totals, grams_N // vocabulary)
        passed_on_N = _looked_up(self.contexts, self.passed_on, grams_N // vocabulary)
        seen_N = totals_N > 0
        return np.where(seen_N, (kept_N + passed_on_N * lower_N) / np.where(seen_N, totals_N, 1), lower_N)


class KneserNey:
    """An n-gram model of token streams; each stream is read as if ``n − 1`` start tokens stood before it.

    Args:
        order: n.
        vocabulary: V; every token is from 0 to V − 1.
        start_token: what stands before a stream.
        streams: what to learn from.

    Raises:
        ConfigError: n-grams of such a vocabulary do not fit 63 bits.
    """

    def __init__(self, order: int, vocabulary: int, start_token: int, streams: Iterable[Sequence[int]]) -> None:
        require(
            vocabulary**order <= LARGEST_CODE, "n-grams that fit 63 bits", f"{vocabulary}^{order}", "lower the order"
        )
        self._order, self._vocabulary, self._start_token = order, vocabulary, start_token
        grams_G, counts_G = np.unique(np.concatenate([self._grams(one) for one in streams]), return_counts=True)
        self._orders = [_Order.of(grams_G, counts_G, vocabulary)]
        for length in range(order - 1, 0, -1):
            grams_G, counts_G = np.unique(grams_G % vocabulary**length, return_counts=True)
            self._orders.insert(0, _Order.of(grams_G, counts_G, vocabulary))

    def probabilities(self, stream: Sequence[int]) -> Numbers:
        """The probability of each token of a stream after those before it, float64 ``[N]``."""
        grams_N = self._grams(stream)
        p_N = np.full(len(grams_N), 1 / self._vocabulary)
        for length, order in enumerate(self._orders, start=1):
            p_N = order.probabilities(grams_N % self._vocabulary**length, p_N, self._vocabulary)
        return p_N

    def bits(self, stream: Sequence[int]) -> float:
        """The bits that this model needs for a stream."""
        return float(-np.log2(self.probabilities(stream)).sum())

    def _grams(self, stream: Sequence[int]) -> Codes:
        padded = np.array([self._start_token] * (self._order - 1) + list(stream), dtype=np.int64)
        windows = np.lib.stride_tricks.sliding_window_view(padded, self._order)
        powers = self._vocabulary ** np.arange(self._order - 1, -1, -1, dtype=np.int64)
        codes_N: Codes = windows @ powers
        return codes_N


def _discounts(counts_G: Codes) -> Numbers:
    n = np.bincount(np.minimum(counts_G, 5), minlength=6).astype(np.float64)
    if n[1:4].all():
        share = n[1] / (n[1] + 2 * n[2])
        found = np.array([0.0, *(j - (j + 1) * share * n[j + 1] / n[j] for j in (1, 2, 3))])
        if (found[1:] > 0).all():
            return found
    return FALLBACK_DISCOUNTS


def _looked_up(keys_G: Codes, values_G: NDArray[_Number], wanted_N: Codes) -> NDArray[_Number]:
    places_N = np.minimum(np.searchsorted(keys_G, wanted_N), len(keys_G) - 1)
    found_N: NDArray[_Number] = np.where(keys_G[places_N] == wanted_N, values_G[places_N], 0)
    return found_N
