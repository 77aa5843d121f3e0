"""What `attendant models train` needs to know of a small task, and how right answers are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import nn

from models.checkpoints.store import Checkpoint
from models.train.loop import Report


class Measure(Protocol):
    """What was measured of a trained model, as the model card writes it."""

    def __str__(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How many answers are right.

    Attributes:
        right: number of right answers.
        total: number of questions.
    """

    right: int
    total: int

    @classmethod
    def of(cls, answers: Iterable[object], truths: Iterable[object]) -> Score:
        """Compare answers with as many truths, one by one."""
        equal = [answer == truth for answer, truth in zip(answers, truths, strict=True)]
        return cls(right=sum(map(bool, equal)), total=len(equal))

    @property
    def share(self) -> float:
        """The share of right answers, 0 to 1."""
        return self.right / self.total

    def __str__(self) -> str:
        return f"{self.share:.2%} ({self.right} of {self.total})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a reader must know of a trained model that cannot be counted or measured.

    Attributes:
        title: one line.
        purpose: what it is for.
        data: where the examples come from.
        licence: of the data, and whom to name.
        split: which examples were never trained on.
        recipe: how it was trained, and how that was chosen.
        limits: what it cannot do.
    """

    title: str
    purpose: str
    data: str
    licence: str
    split: str
    recipe: str
    limits: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingTask:
    """A shipped checkpoint, and how to make it again.

    Attributes:
        name: of the checkpoint and its folder.
        family: of its architecture.
        steps: how many the training takes.
        metric: what the score measures, on which data.
        packages: what made the weights, for the versions in the model card.
        card: the prose of the model card.
        train: from a seed to a model in evaluation mode; the same on each call.
        score: the metric of a checkpoint, its companions beside it.
        example: one request to a checkpoint that was never trained on, and its right answer.
        trained_on: from a number to as many inputs from the training data, the same on each call: texts, or pixels
            ``[N, C, height, width]``.
        details: what serving needs to know.
        companions: writes the files beside the weights into a folder.
    """

    name: str
    family: str
    steps: int
    metric: str
    packages: tuple[str, ...]
    card: Card
    train: Callable[[int, Report], nn.Module]
    score: Callable[[Checkpoint], Measure]
    example: Callable[[Checkpoint], dict[str, Any]]
    trained_on: Callable[[int], Sequence[str] | NDArray[np.float32]]
    details: dict[str, Any] = field(default_factory=dict)
    companions: Callable[[Path], None] = lambda folder: None
