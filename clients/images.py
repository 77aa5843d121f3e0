"""An image file to the pixels that a model was trained on, by the preprocessing that travels with the checkpoint.

Legend: C channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from clients.triton_client import Array
from models.errors import InputError

_RESAMPLING = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}


def pixels_from_file(path: Path, preprocessing: Mapping[str, Any]) -> Array:
    """Read an image and prepare it.

    Args:
        path: in any format that Pillow reads.
        preprocessing: ``mode`` (Pillow's), ``size`` (height, width), ``resample``, ``scale``, ``mean``, ``deviation``.

    Returns:
        float32 ``[C, height, width]``: (value · scale − mean) / deviation, values from 0 to 255.

    Raises:
        InputError: there is no such file, or it is no image.
    """
    try:
        with Image.open(path) as image:
            return pixels_from_image(image, preprocessing)
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise InputError(f"an image file at {path}", str(error), "name a PNG or JPEG file") from error


def pixels_from_image(image: Image.Image, preprocessing: Mapping[str, Any]) -> Array:
    """Prepare an image that is already open; see :func:`pixels_from_file`."""
    height, width = preprocessing["size"]
    resized = image.convert(preprocessing["mode"]).resize((width, height), _RESAMPLING[preprocessing["resample"]])
    values_HWC = np.asarray(resized, dtype=np.float32).reshape(height, width, -1)
    mean, deviation = np.float32(preprocessing["mean"]), np.float32(preprocessing["deviation"])
    pixels_HWC = (values_HWC * np.float32(preprocessing["scale"]) - mean) / deviation
    return np.ascontiguousarray(pixels_HWC.transpose(2, 0, 1))
