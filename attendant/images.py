"""An image file to the pixels that a model was trained on, by the preprocessing that travels with the checkpoint.

Legend: C channels.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from attendant.errors import InputError

Array = NDArray[np.float32]
Bytes = NDArray[np.uint8]

_RESAMPLING = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}

MOST_ELONGATED = 64
"""How often an image's longer side may hold the shorter one, where that is brought to a size and the other with it:
a line of pixels would take gigabytes."""
_OFFSETS: dict[str, Callable[[float], int]] = {"down": math.floor, "half to even": round}


def pixels_from_file(path: Path, preprocessing: Mapping[str, Any]) -> Array:
    """Read an image and prepare it.

    Args:
        path: in any format that Pillow reads.
        preprocessing: ``mode`` (Pillow's); ``size``: height and width, or one number, to which the shorter side is
            brought; ``resample``; ``crop``: height and width of the middle that is kept, all of it if absent;
            ``crop_offset``: how half a pixel is rounded in that, ``down`` (transformers) if absent, or
            ``half to even`` (torchvision); ``scale``, ``mean``, ``deviation``.

    Returns:
        float32 ``[C, height, width]``: (value · scale − mean) / deviation, values from 0 to 255.

    Raises:
        InputError: there is no such file, or it is no image.
    """
    with _opened(path) as image:
        return pixels_from_image(image, preprocessing)


def bytes_from_file(path: Path, preprocessing: Mapping[str, Any]) -> Bytes:
    """Read an image and bring it to the model's size, uint8 ``[height, width, C]``; see :func:`pixels_from_file`.

    Raises:
        InputError: there is no such file, or it is no image.
    """
    with _opened(path) as image:
        return bytes_from_image(image, preprocessing)


def pixels_from_image(image: Image.Image, preprocessing: Mapping[str, Any]) -> Array:
    """Prepare an image that is already open; see :func:`pixels_from_file`."""
    values_HWC = bytes_from_image(image, preprocessing).astype(np.float32)
    mean, deviation = np.float32(preprocessing["mean"]), np.float32(preprocessing["deviation"])
    pixels_HWC = (values_HWC * np.float32(preprocessing["scale"]) - mean) / deviation
    return np.ascontiguousarray(pixels_HWC.transpose(2, 0, 1))


def bytes_from_image(image: Image.Image, preprocessing: Mapping[str, Any]) -> Bytes:
    """Bring an image that is already open to the model's size; see :func:`bytes_from_file`.

    Raises:
        InputError: it would become far larger than the model's size.
    """
    height, width = _resized(image, preprocessing["size"])
    resized = image.convert(preprocessing["mode"]).resize((width, height), _RESAMPLING[preprocessing["resample"]])
    values_HWC = np.array(resized, dtype=np.uint8).reshape(height, width, -1)
    if "crop" in preprocessing:
        height, width = preprocessing["crop"]
        offset = _OFFSETS[preprocessing.get("crop_offset", "down")]
        top, left = offset((values_HWC.shape[0] - height) / 2), offset((values_HWC.shape[1] - width) / 2)
        values_HWC = values_HWC[top : top + height, left : left + width]
    return np.ascontiguousarray(values_HWC)


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    try:
        with Image.open(path) as image:
            yield image
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise InputError(f"an image file at {path}", str(error), "name a PNG or JPEG file") from error


def _resized(image: Image.Image, size: int | Sequence[int]) -> tuple[int, int]:
    if not isinstance(size, int):
        height, width = size
        return height, width
    shorter, longer = min(image.size), max(image.size)
    if longer > MOST_ELONGATED * shorter:
        expected, found = f"an image whose sides are at most 1 to {MOST_ELONGATED}", f"{image.width} × {image.height}"
        raise InputError(expected, found, "cut it to what it shows", param="image")
    other = int(size * longer / shorter)
    return (other, size) if image.width <= image.height else (size, other)
