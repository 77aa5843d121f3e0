"""Which tokens are left to sample from: each filter looks at the logits of those that the one before has left.

Legend: C tokens that are left (candidates), in the order of the vocabulary.
Source: transformers' ``logits_process.py``; a filter keeps what its class of the same name keeps, and at least one
token. Of equally probable tokens at the edge of top-p the last of the vocabulary stay; transformers leaves that open.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from attendant.sampling_params import SamplingParams
from serving.runtime.base import Array

Filter = Callable[[Array], Array]  # float64 logits_C, of which some may be −inf → kept_C, bool


def top_k(k: int, logits_C: Array) -> Array:
    """The k most probable tokens, and those as probable as the last of them."""
    return np.asarray(logits_C >= kth_largest(logits_C, k))


def top_p(mass: float, logits_C: Array) -> Array:
    """The most probable tokens that together have this probability, the one that reaches it included."""
    p_C = softmax(logits_C)
    likely = np.flatnonzero(p_C >= (1 - mass) / p_C.size)  # the others have less than 1 − mass together: none is kept
    rising = likely[logits_C[likely].argsort(kind="stable")]
    p_rising = p_C[rising]
    p_C[rising] = 0
    kept = rising[p_C.sum() + p_rising.cumsum() > 1 - mass]
    kept_C = np.zeros(p_C.size, dtype=bool)
    kept_C[kept] = True
    kept_C[rising[-1]] = True
    return kept_C


def min_p(share: float, logits_C: Array) -> Array:
    """The tokens at least this share as probable as the most probable one."""
    p_C = softmax(logits_C)
    return np.asarray(p_C >= share * p_C.max())


def typical_p(mass: float, logits_C: Array) -> Array:
    """The tokens whose surprise is closest to the expected one, of this probability together."""
    p_C, log_p_C = softmax(logits_C), log_softmax(logits_C)
    possible = np.flatnonzero(p_C)
    expected = -(p_C[possible] * log_p_C[possible]).sum()
    distance_C = np.abs(-log_p_C - expected)
    closest_C = distance_C.argsort(kind="stable")
    last = min(int((p_C[closest_C].cumsum() < mass).sum()), p_C.size - 1)
    return np.asarray(distance_C <= distance_C[closest_C[last]])


def create_filters(options: SamplingParams) -> tuple[Filter, ...]:
    """What a request leaves to sample from, in order."""
    asked: list[tuple[bool, Filter]] = [
        (options.top_k > 0, partial(top_k, options.top_k)),
        (options.top_p < 1, partial(top_p, options.top_p)),
        (options.min_p > 0, partial(min_p, options.min_p)),
        (options.typical_p < 1, partial(typical_p, options.typical_p)),
    ]
    return tuple(keep for wanted, keep in asked if wanted)


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


def softmax(logits_C: Array) -> Array:
    """Probabilities of logits."""
    p_C = np.asarray(logits_C - logits_C.max())
    np.exp(p_C, out=p_C)
    p_C /= p_C.sum()
    return p_C


def log_softmax(logits_C: Array) -> Array:
    """Log-probabilities of logits; −inf stays so."""
    log_p_C = np.asarray(logits_C - logits_C.max())
    log_p_C -= np.log(np.exp(log_p_C).sum())
    return log_p_C
