"""What an artefact and the model that it was made from are asked, and what is known of the right answers.

Legend: N questions, T target positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from serving.runtime.base import Array

BATCH = 32
"""Rows that are asked at once; every graph takes as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSet:
    """Rows of inputs, and what is known of their answers.

    Attributes:
        name: what they are, for people.
        real: whether they are examples of what the model was made for; random inputs are not.
        count: N.
        sample: how many are compared value by value; the right answers are counted over all.
        feeds: inputs of the first graph, ``[N, …]`` each; none of a language model.
        truth: labels int64 ``[N]``, or target tokens int64 ``[N, T]`` from the first that the decoder is fed.
        prompt: how many tokens of a target are given at once, before single steps begin.
        masks: output → input that says which of its positions count.
        metric: what counts as right; empty if nobody knows the right answers.
    """

    name: str
    real: bool
    count: int
    sample: int
    feeds: Mapping[str, Array] = field(default_factory=dict)
    truth: Array | None = None
    prompt: int = 1
    masks: Mapping[str, str] = field(default_factory=dict)
    metric: str = ""

    def first(self, count: int) -> EvaluationSet:
        """The first of them, or all if there are fewer."""
        return self._rows(slice(0, count))

    def batches(self, size: int = BATCH) -> Iterator[EvaluationSet]:
        """All of them, so many at a time."""
        for begin in range(0, self.count, size):
            yield self._rows(slice(begin, begin + size))

    def _rows(self, rows: slice) -> EvaluationSet:
        return replace(
            self,
            count=len(range(*rows.indices(self.count))),
            feeds={name: array[rows] for name, array in self.feeds.items()},
            truth=None if self.truth is None else self.truth[rows],
        )
