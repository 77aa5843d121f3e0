"""``digits-vit``: handwritten digits of 8×8 pixels in ten classes.

Legend: N examples, B batch, K classes.
Source: E. Alpaydin and C. Kaynak 1998, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository;
its test part, as scikit-learn carries it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

from models.checkpoints.store import Checkpoint
from models.families.vit import ViT, ViTConfig
from models.tensor_names import PIXELS
from models.train.jitter import Jitter
from models.train.loop import Report, Schedule, optimise, reproducible
from models.train.split import stratified_split
from models.train.task import Card, Score, TrainingTask

Images = tuple[NDArray[np.float32], NDArray[np.int64]]

DARKEST = 16
HELD_OUT_IMAGES = 360
CONFIG = ViTConfig(
    image_size=8,
    patch_size=2,
    channels=1,
    classes=10,
    layers=4,
    width=64,
    heads=4,
    mlp_width=128,
    position_deviation=0.5,
)
SCHEDULE = Schedule(steps=1840, batch=64, peak_rate=2e-3)
JITTER = Jitter(degrees=10, scale=0.1, pixels=0.3)
LABEL_SMOOTHING = 0.1
DETAILS: dict[str, Any] = {
    "labels": [str(digit) for digit in range(10)],
    "preprocessing": {
        "mode": "L",
        "size": [8, 8],
        "scale": 1 / 255,
        "mean": [0.0],
        "deviation": [1.0],
        "resample": "bilinear",
    },
}


def training() -> Images:
    """The 1,437 images to train on, float32 ``[N, 1, 8, 8]`` from 0 (paper) to 1 (ink), and their digits."""
    return _images(split_indices()[0])


def held_out() -> Images:
    """The 360 images that were never trained on, float32 ``[360, 1, 8, 8]`` from 0 to 1, and their digits."""
    return _images(split_indices()[1])


def split_indices() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which of scikit-learn's 1,797 images are for training and which are held out; a fixed stratified split."""
    labels: NDArray[np.int64] = load_digits().target.astype(np.int64)
    return stratified_split(labels, HELD_OUT_IMAGES)


@torch.no_grad()
def accuracy(model: nn.Module, images: Images | None = None) -> Score:
    """How many images get their digit; the held-out ones unless others are given."""
    pixels, labels = held_out() if images is None else images
    return Score.of(model(torch.from_numpy(pixels)).argmax(1).tolist(), labels.tolist())


def train(seed: int, report: Report, schedule: Schedule = SCHEDULE) -> ViT:
    """Train from random weights; the same seed gives the same weights on the same machine."""
    with reproducible(seed):
        model = ViT(CONFIG)
        batches = _batches(training(), schedule.batch, torch.Generator().manual_seed(seed))
        optimise(model, lambda: _loss(model, *batches()), schedule, report)
    return model


def _images(indices: NDArray[np.int64]) -> Images:
    digits = load_digits()
    pixels = (digits.images[indices, None] / DARKEST).astype(np.float32)
    return pixels, digits.target[indices].astype(np.int64)


def _batches(images: Images, size: int, generator: torch.Generator) -> Callable[[], tuple[Tensor, Tensor]]:
    pixels, labels = (torch.from_numpy(array) for array in images)
    waiting: list[Tensor] = []

    def batch() -> tuple[Tensor, Tensor]:
        if not waiting:
            waiting.extend(torch.split(torch.randperm(len(labels), generator=generator), size))
        chosen = waiting.pop()
        return JITTER.apply(pixels[chosen], generator), labels[chosen]

    return batch


def _loss(model: nn.Module, pixels: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(model(pixels), labels, label_smoothing=LABEL_SMOOTHING)


def _example(_trained: Checkpoint) -> dict[str, object]:
    pixels, labels = held_out()
    three = int(np.flatnonzero(labels == 3)[0])
    return {"inputs": {PIXELS: pixels[three].tolist()}, "answer": DETAILS["labels"][3]}


CARD = Card(
    title="Handwritten digits, a four-layer Vision Transformer",
    purpose="A small classifier that a laptop trains in seconds: the demonstration of image classification in this "
    "repository. Not meant for anything else.",
    data="Optical Recognition of Handwritten Digits, its test part as `sklearn.datasets.load_digits` carries it: "
    "1,797 grey images of 8×8 pixels with values 0 to 16, divided by 16, without other normalisation. At serving time "
    "a pixel is value × scale of an 8-bit grey image, ink bright on a dark ground.",
    licence="E. Alpaydin and C. Kaynak (1998), Optical Recognition of Handwritten Digits, UCI Machine Learning "
    "Repository, https://archive.ics.uci.edu/dataset/80, Creative Commons Attribution 4.0 International (CC BY 4.0). "
    "This repository's licence (Apache-2.0) covers the weights; `config.json` quotes one image of the data.",
    split=f"{HELD_OUT_IMAGES} of the 1,797 images are held out, the same share of each digit, chosen by SHA-256 of "
    "their number; the other 1,437 were trained on. Training and held-out images come from the same 13 writers, so the "
    "metric says nothing of other hands.",
    recipe=f"AdamW, {SCHEDULE.steps:,} steps of {SCHEDULE.batch} images, peak rate {SCHEDULE.peak_rate}, warm-up "
    f"{SCHEDULE.warmup:.0%}, cosine to zero, weight decay {SCHEDULE.weight_decay}, label smoothing {LABEL_SMOOTHING}; "
    f"each image turned by up to {JITTER.degrees}°, scaled by up to {JITTER.scale:.0%} and moved by up to "
    f"{JITTER.pixels} pixels. Chosen among 16 recipes by five-fold cross-validation inside the "
    "1,437 training images (98.75 %); the held-out images chose nothing, neither recipe nor seed.",
    limits="Images like the data only: one upright digit that fills the frame, reduced to 8×8 by counting ink in "
    "blocks of 4×4 pixels. It has no class for what is no digit and always names one.",
)

TASK = TrainingTask(
    name="digits-vit",
    family="vit",
    steps=SCHEDULE.steps,
    metric=f"accuracy, {HELD_OUT_IMAGES} held-out images",
    packages=("torch", "scikit-learn", "safetensors"),
    card=CARD,
    train=train,
    score=lambda trained: accuracy(trained.model),
    example=_example,
    details=DETAILS,
)
