"""How far an answer is from the reference's: drift, divergence, first choices, and how long two texts stay one.

    drift    mean |z′ − z| / σ of one step, σ the standard deviation of the reference's values z
    KL       Σ_v p(v) (log p(v) − log p′(v)), p = softmax(z), in nats a token
    top-1    share of the tokens with argmax z′ = argmax z
    cosine   z·z′ / (|z| |z′|)
    prefix   how many tokens of a greedy answer come before the first other one

Everything is computed in float64; what is not finite stays so, and is within no budget.

Legend: B rows, T steps, V values: a vocabulary, classes, the width of an embedding.
Source: Kullback and Leibler 1951, "On Information and Sufficiency".
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from serving.runtime.base import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDrift:
    """The difference at one step, over all rows.

    Attributes:
        largest: of the absolute differences.
        mean: of the absolute differences.
        spread: σ of the reference, the mean over the rows.
    """

    largest: float
    mean: float
    spread: float

    @property
    def drift(self) -> float:
        """The mean difference in units of the spread."""
        return self.mean / self.spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """One output against the reference's.

    Attributes:
        tokens: B · T.
        steps: the difference at each step.
        cosine: the smallest.
        kl_mean: of all tokens; none where the values are no logits.
        kl_largest: of all tokens.
        top1: share of the tokens whose first choice is the same.
    """

    tokens: int
    steps: tuple[StepDrift, ...]
    cosine: float
    kl_mean: float | None = None
    kl_largest: float | None = None
    top1: float | None = None

    @property
    def drift(self) -> float:
        return float(np.max([step.drift for step in self.steps]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """Greedy answers beside the reference's.

    Attributes:
        rows: how many answers.
        identical: how many are the reference's to the end.
        common: tokens before the first other one, of all answers together.
        whole: tokens of all the reference's answers together, end tokens included.
        shortest: the fewest tokens that an answer has in common.
    """

    rows: int
    identical: int
    common: int
    whole: int
    shortest: int


def agreement_of(found_BTV: Array, reference_BTV: Array, logits: bool) -> Agreement:
    """Compare values with those of the reference, which have the same shape."""
    found, reference = found_BTV.astype(np.float64), reference_BTV.astype(np.float64)
    agreement = Agreement(
        tokens=int(np.prod(reference.shape[:2])),
        steps=_steps(found, reference),
        cosine=float(cosines(found, reference).min()),
    )
    if not logits:
        return agreement
    nats, same = divergences(found, reference), found.argmax(-1) == reference.argmax(-1)
    return replace(agreement, kl_mean=float(nats.mean()), kl_largest=float(nats.max()), top1=float(same.mean()))


def divergences(found: Array, reference: Array) -> Array:
    """KL(reference ‖ found) of logits ``[…, V]`` → ``[…]``, in nats."""
    log_q, log_p = log_softmax(found), log_softmax(reference)
    nats: Array = (np.exp(log_p) * (log_p - log_q)).sum(-1)
    return nats


def cosines(found: Array, reference: Array) -> Array:
    """The cosine of the angle between vectors ``[…, V]`` → ``[…]``; 1 between two that are zero."""
    lengths = np.linalg.norm(found, axis=-1) * np.linalg.norm(reference, axis=-1)
    both_zero = ~(found.any(-1) | reference.any(-1))
    cosine: Array = np.where(both_zero, 1.0, (found * reference).sum(-1) / np.where(lengths == 0, 1.0, lengths))
    return cosine


def log_softmax(logits: Array) -> Array:
    """Logarithms of the probabilities of logits ``[…, V]``."""
    shifted = logits - logits.max(-1, keepdims=True)
    log_p: Array = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return log_p


def prefix_of(found_BT: Array, reference_BT: Array, ends: Collection[int]) -> Prefix:
    """How long greedy answers follow the reference's, each of which counts up to its end token.

    Args:
        found_BT: tokens; what stands behind an end token does not matter.
        reference_BT: as many.
        ends: the tokens that end an answer.
    """
    whole = np.array(
        [
            next((position + 1 for position, token in enumerate(row) if token in ends), len(row))
            for row in reference_BT.tolist()
        ]
    )
    different = found_BT != reference_BT
    first = np.where(different.any(1), different.argmax(1), reference_BT.shape[1])
    common = np.minimum(first, whole)
    return Prefix(
        rows=len(whole),
        identical=int((common == whole).sum()),
        common=int(common.sum()),
        whole=int(whole.sum()),
        shortest=int(common.min()),
    )


def _steps(found_BTV: Array, reference_BTV: Array) -> tuple[StepDrift, ...]:
    errors = np.abs(found_BTV - reference_BTV)
    largest, mean = errors.max(axis=(0, 2)), errors.mean(axis=(0, 2))
    numbers = zip(largest.tolist(), mean.tolist(), _spreads(reference_BTV).tolist(), strict=True)
    return tuple(StepDrift(largest=high, mean=usual, spread=spread) for high, usual, spread in numbers)


def _spreads(reference_BTV: Array) -> Array:
    own = reference_BTV.std(axis=-1).mean(axis=0)
    among_rows = reference_BTV.std(axis=(0, 2))  # where a row has one value
    size = np.abs(reference_BTV).max(axis=(0, 2))
    spreads: Array = np.select([own > 0, among_rows > 0, size > 0], [own, among_rows, size], 1.0)
    return spreads
