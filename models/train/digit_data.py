"""Handwritten digits of 8×8 pixels in ten classes, and which of them are never trained on.

Legend: N examples.
Source: E. Alpaydin and C. Kaynak 1998, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository;
its test part, as scikit-learn carries it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from models.train.split import stratified_split

Images = tuple[NDArray[np.float32], NDArray[np.int64]]

DARKEST = 16
HELD_OUT_IMAGES = 360
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


def training_images() -> Images:
    """The 1,437 images to train on, float32 ``[N, 1, 8, 8]`` from 0 (paper) to 1 (ink), and their digits."""
    return _images(split_indices()[0])


def held_out() -> Images:
    """The 360 images that were never trained on, float32 ``[360, 1, 8, 8]`` from 0 to 1, and their digits."""
    return _images(split_indices()[1])


def split_indices() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which of scikit-learn's 1,797 images are for training and which are held out; a fixed stratified split."""
    labels: NDArray[np.int64] = load_digits().target.astype(np.int64)
    return stratified_split(labels, HELD_OUT_IMAGES)


def _images(indices: NDArray[np.int64]) -> Images:
    digits = load_digits()
    pixels = (digits.images[indices, None] / DARKEST).astype(np.float32)
    return pixels, digits.target[indices].astype(np.int64)
