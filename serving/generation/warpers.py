"""Which tokens are left to sample from: each filter looks at the logits of those that the one before has left.

Legend: C tokens that are left (candidates), in the order of the vocabulary.
Source: transformers' ``logits_process.py``; a filter keeps what its class of the same name keeps, and at least one
token. Of equally probable tokens at the edge of top-p the last of the vocabulary stay; transformers leaves that open.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from serving.generation.options import DecodingOptions
from serving.runtime.base import Array

Filter = Callable[[Array], Array]  # finite float64 logits_C → kept_C, bool


def top_k(k: int, logits_C: Array) -> Array:
    """The k most probable tokens, and those as probable as the last of them."""
    at = max(logits_C.size - k, 0)
    return np.asarray(logits_C >= np.partition(logits_C, at)[at])


def top_p(mass: float, logits_C: Array) -> Array:
    """The most probable tokens that together have this probability, the one that reaches it included."""
    p_C = softmax(logits_C)
    likely_C = p_C >= (1 - mass) / p_C.size  # the others together have less than 1 − mass, so none of them is kept
    tokens = np.flatnonzero(likely_C)
    tokens = tokens[logits_C[tokens].argsort(kind="stable")]
    rising = p_C[~likely_C].sum() + p_C[tokens].cumsum()
    kept_C = np.zeros(p_C.size, dtype=bool)
    kept_C[tokens[rising > 1 - mass]] = True
    kept_C[tokens[-1]] = True
    return kept_C


def min_p(share: float, logits_C: Array) -> Array:
    """The tokens at least this share as probable as the most probable one."""
    p_C = softmax(logits_C)
    return np.asarray(p_C >= share * p_C.max())


def typical_p(mass: float, logits_C: Array) -> Array:
    """The tokens whose surprise is closest to the expected one, of this probability together."""
    p_C, log_p_C = softmax(logits_C), log_softmax(logits_C)
    distance_C = np.abs(-log_p_C - -(p_C * log_p_C).sum())
    closest_C = distance_C.argsort(kind="stable")
    last = min(int((p_C[closest_C].cumsum() < mass).sum()), p_C.size - 1)
    return np.asarray(distance_C <= distance_C[closest_C[last]])


def create_filters(options: DecodingOptions) -> tuple[Filter, ...]:
    """What a request leaves to sample from, in order."""
    asked: list[tuple[bool, Filter]] = [
        (options.top_k > 0, partial(top_k, options.top_k)),
        (options.top_p < 1, partial(top_p, options.top_p)),
        (options.min_p > 0, partial(min_p, options.min_p)),
        (options.typical_p < 1, partial(typical_p, options.typical_p)),
    ]
    return tuple(keep for wanted, keep in asked if wanted)


def divide_by_temperature(logits_V: Array, temperature: float) -> Array:
    """The logits by the temperature, less what makes the largest 0, so that none overflows."""
    with np.errstate(over="ignore"):  # to −inf, where the probability is 0
        return np.asarray((logits_V - logits_V.max()) / temperature)


def softmax(logits_C: Array) -> Array:
    """Probabilities of logits."""
    weights_C = np.exp(logits_C - logits_C.max())
    return np.asarray(weights_C / weights_C.sum())


def log_softmax(logits_C: Array) -> Array:
    """Log-probabilities of logits; −inf stays so."""
    shifted_C = logits_C - logits_C.max()
    return np.asarray(shifted_C - np.log(np.exp(shifted_C).sum()))
