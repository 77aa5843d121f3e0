"""The pixels that a served model takes: from a file, by its own preprocessing, or checked before they are sent.

Legend: B batch.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL.Image import Image

from attendant.errors import InputError
from attendant.images import (
    bytes_from_file,
    bytes_from_image,
    count_resized_pixels,
    pixels_from_file,
    pixels_from_image,
    require_fitting_size,
)
from attendant.tensor_names import PIXELS
from clients.served_model import ServedModel
from clients.triton_client import Array

ANY = -1
"""How a server's configuration writes a side that varies."""


def blank_pixels(model: ServedModel) -> Array:
    """One image that is all zero, of the size that the model was trained for."""
    sides = [int(model.parameters["image_size"]) if side == ANY else side for side in model.inputs[PIXELS]]
    return np.zeros(sides, model.dtypes[PIXELS])


def file_pixels(model: ServedModel, path: Path) -> Array:
    """An image file as the model wants it: float32 ``[C, height, width]``, or uint8 ``[height, width, C]``.

    Raises:
        InputError: the file is no image, or the model has no preprocessing for files.
    """
    preprocessing = _require_preprocessing(model)
    prepare = bytes_from_file if model.dtypes[PIXELS] == "uint8" else pixels_from_file
    return prepare(path, preprocessing)


def image_pixels(model: ServedModel, image: Image) -> Array:
    """An image that is already open as the model wants it; see :func:`file_pixels`.

    Raises:
        InputError: the model has no preprocessing for images.
    """
    prepare = bytes_from_image if model.dtypes[PIXELS] == "uint8" else pixels_from_image
    return prepare(image, _require_preprocessing(model))


def count_made_pixels(model: ServedModel, image: Image) -> int:
    """How many pixels an image has once it is resized for the model.

    Raises:
        InputError: the model has no preprocessing for images, or one that makes far larger images than it takes.
    """
    return count_resized_pixels(image, _require_preprocessing(model))


def require_pixels(model: ServedModel, pixels: Array, batched: bool) -> None:
    """Refuse pixels of another type or shape than the model's.

    Args:
        model: that will get them.
        pixels: of one image, or of a batch.
        batched: whether a batch axis stands in front.

    Raises:
        InputError: they are not the model's.
    """
    expected, dtype = model.inputs[PIXELS], model.dtypes[PIXELS]
    shape = pixels.shape[1:] if batched else pixels.shape
    fits = len(shape) == len(expected) and all(side in (size, ANY) for size, side in zip(shape, expected, strict=True))
    if pixels.dtype != dtype or not fits:
        sides = ", ".join("any" if side == ANY else str(side) for side in expected)
        raise InputError(
            f"{dtype} pixels [{'batch, ' if batched else ''}{sides}]",
            f"{pixels.dtype} {list(pixels.shape)}",
            "convert or reshape them",
        )


def _require_preprocessing(model: ServedModel) -> Mapping[str, Any]:
    preprocessing: Mapping[str, Any] | None = model.parameters.get("preprocessing")
    if preprocessing is None:
        raise InputError(
            f"{model.name!r} to say how to prepare an image",
            "no preprocessing in its configuration",
            "send prepared pixels from Python",
        )
    dims = model.inputs[PIXELS]
    require_fitting_size(preprocessing, dims[:2] if model.dtypes[PIXELS] == "uint8" else dims[1:])
    return preprocessing
