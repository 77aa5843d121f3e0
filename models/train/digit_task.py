"""The task of every model of digits: which digit is it?

Legend: B batch, K classes.
"""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attendant.tensor_names import PIXELS
from models.checkpoints.store import Checkpoint
from models.train.digit_data import DETAILS, HELD_OUT_IMAGES, Images, held_out, training_images
from models.train.jitter import Jitter
from models.train.loop import Report, Schedule, optimise, reproducible
from models.train.task import Card, Score, TrainingTask

ModelT = TypeVar("ModelT", bound=nn.Module)
JITTER = Jitter(degrees=10, scale=0.1, pixels=0.3)
LABEL_SMOOTHING = 0.1


@torch.no_grad()
def accuracy(model: nn.Module, images: Images | None = None) -> Score:
    """How many images get their digit; the held-out ones unless others are given."""
    pixels, labels = held_out() if images is None else images
    return Score.of(model(torch.from_numpy(pixels)).argmax(1).tolist(), labels.tolist())


def train_on_digits(build: Callable[[], ModelT], schedule: Schedule, seed: int, report: Report) -> ModelT:
    """Train from random weights; the same seed gives the same weights on the same machine."""
    with reproducible(seed):
        model = build()
        generator = torch.Generator().manual_seed(seed)
        pixels, labels = (torch.from_numpy(array) for array in training_images())
        waiting: list[Tensor] = []

        def batch() -> tuple[Tensor, Tensor]:
            if not waiting:
                waiting.extend(torch.split(torch.randperm(len(labels), generator=generator), schedule.batch))
            chosen = waiting.pop()
            return JITTER.apply(pixels[chosen], generator), labels[chosen]

        optimise(model, lambda: _loss(model, *batch()), schedule, report)
    return model


def digit_task(
    *, name: str, family: str, schedule: Schedule, card: Card, train: Callable[[int, Report], nn.Module]
) -> TrainingTask:
    """A shipped checkpoint that reads digits."""
    return TrainingTask(
        name=name,
        family=family,
        steps=schedule.steps,
        metric=f"accuracy, {HELD_OUT_IMAGES} held-out images",
        packages=("torch", "scikit-learn", "safetensors"),
        card=card,
        train=train,
        score=lambda trained: accuracy(trained.model),
        example=_example,
        trained_on=lambda count: training_images()[0][:count],
        details=DETAILS,
    )


def digit_card(*, title: str, purpose: str, schedule: Schedule, choice: str) -> Card:
    """The card of a model of digits.

    Args:
        title: one line.
        purpose: what it is for.
        schedule: how it was trained.
        choice: how that was chosen.
    """
    return Card(
        title=title,
        purpose=purpose,
        data=DIGIT_DATA,
        licence=DIGIT_LICENCE,
        split=DIGIT_SPLIT,
        recipe=f"AdamW, {schedule.steps:,} steps of {schedule.batch} images, peak rate {schedule.peak_rate}, warm-up "
        f"{schedule.warmup:.0%}, cosine to zero, weight decay {schedule.weight_decay}, label smoothing "
        f"{LABEL_SMOOTHING}; each image turned by up to {JITTER.degrees}°, scaled by up to {JITTER.scale:.0%} and "
        f"moved by up to {JITTER.pixels} pixels. {choice}",
        limits=_LIMITS,
    )


def _loss(model: nn.Module, pixels: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(model(pixels), labels, label_smoothing=LABEL_SMOOTHING)


def _example(_trained: Checkpoint) -> dict[str, object]:
    pixels, labels = held_out()
    three = int(np.flatnonzero(labels == 3)[0])
    return {"inputs": {PIXELS: pixels[three].tolist()}, "answer": DETAILS["labels"][3]}


DIGIT_DATA = (
    "Optical Recognition of Handwritten Digits, its test part as `sklearn.datasets.load_digits` carries it: "
    "1,797 grey images of 8×8 pixels with values 0 to 16, divided by 16, without other normalisation. At serving time "
    "a pixel is value × scale of an 8-bit grey image, ink bright on a dark ground."
)
DIGIT_LICENCE = (
    "E. Alpaydin and C. Kaynak (1998), Optical Recognition of Handwritten Digits, UCI Machine Learning "
    "Repository, https://archive.ics.uci.edu/dataset/80, Creative Commons Attribution 4.0 International (CC BY 4.0). "
    "This repository's licence (Apache-2.0) covers the weights; `config.json` quotes one image of the data."
)
DIGIT_SPLIT = (
    f"{HELD_OUT_IMAGES} of the 1,797 images are held out, the same share of each digit, chosen by SHA-256 of "
    "their number; the other 1,437 were trained on. Training and held-out images come from the same 13 writers, so the "
    "metric says nothing of other hands."
)
_LIMITS = (
    "Images like the data only: one upright digit that fills the frame, reduced to 8×8 by counting ink in "
    "blocks of 4×4 pixels. It has no class for what is no digit and always names one."
)
