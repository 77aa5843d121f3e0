"""An image file to the pixels that a model was trained on, by the preprocessing that travels with the checkpoint.

Legend: C channels.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, UnidentifiedImageError

from attendant.errors import InputError
from attendant.records import open_file

Array = NDArray[np.float32]
Bytes = NDArray[np.uint8]

_RESAMPLING = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}

_TURNED = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""By an image's orientation, which cameras write."""
MOST_ELONGATED = 64
"""How often an image's longer side may hold the shorter one, where that is brought to a size and the other with it:
a line of pixels would take gigabytes."""
MOST_REDUCED = 4
"""How often a side to which an image is brought may hold that of the crop that the model takes."""
MOST_FILE_BYTES = 1 << 30
LONGEST_SIDE = 4096
"""Of images for a model that takes any side."""
_OFFSETS: dict[str, Callable[[float], int]] = {
    "down": math.floor,
    "half to even": lambda half: round(half) if half > 0 else int(half),  # torchvision cuts off where it pads
}


def pixels_from_file(path: Path, preprocessing: Mapping[str, Any]) -> Array:
    """Read an image and prepare it.

    Args:
        path: in any format that Pillow reads.
        preprocessing: ``mode`` (Pillow's); ``size``: height and width, or one number, to which the shorter side is
            brought; ``resample``; ``crop``: height and width of the middle that is kept, all of it if absent;
            black surrounds what is smaller; ``crop_offset``: how half a pixel is rounded in that, ``down``
            (transformers) if absent, or ``half to even`` (torchvision); ``scale``, ``mean``, ``deviation``.

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
    """Prepare an image that is already open; see :func:`pixels_from_file`.

    Raises:
        InputError: as :func:`bytes_from_image`, or the preprocessing's numbers are none for its channels.
    """
    values_HWC = bytes_from_image(image, preprocessing).astype(np.float32)
    numbers = {name: preprocessing.get(name) for name in ("scale", "mean", "deviation")}
    try:
        scale, mean, deviation = map(np.float32, numbers.values())
        values_HWC *= scale  # in place: of a large image each copy takes as much again
        values_HWC -= mean
        values_HWC /= deviation
        fits = bool(np.isfinite([*np.ravel(scale), *np.ravel(mean)]).all())
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise _unfit(f"by numbers for {values_HWC.shape[2]} channels", str(numbers))
    return np.ascontiguousarray(values_HWC.transpose(2, 0, 1))


def bytes_from_image(image: Image.Image, preprocessing: Mapping[str, Any]) -> Bytes:
    """Bring an image that is already open to the model's size; see :func:`bytes_from_file`.

    Raises:
        InputError: it would become far larger than the model's size.
    """
    upright = _as_shown(image, preprocessing["mode"])
    height, width = _resized(upright, preprocessing["size"])
    resized = upright.resize((width, height), _RESAMPLING[preprocessing["resample"]])
    values_HWC = np.array(resized, dtype=np.uint8).reshape(height, width, -1)
    if "crop" in preprocessing:
        offset = _OFFSETS[preprocessing.get("crop_offset", "down")]
        for axis, size in enumerate(preprocessing["crop"]):
            values_HWC = _cropped(values_HWC, axis, size, offset((values_HWC.shape[axis] - size) / 2))
    return np.ascontiguousarray(values_HWC)


def _as_shown(image: Image.Image, mode: str) -> Image.Image:
    """An image in a mode of 8 bits, turned as its file says that it is to be shown.

    Pillow alone turns nothing, and takes levels of 16 bits for levels of 8, so that nearly all of them are white. It
    finds the turn in any file, as transformers does that loads images by it; browsers read it in JPEG and PNG alone.
    Source: Exif 2.32, tag 0x0112; libpng, ``png_set_scale_16``, for the rounding.
    """
    image.load()  # what says so may stand behind the pixels
    turned = _TURNED.get(_orientation(image))
    if image.mode.startswith("I;16"):
        levels = np.asarray(image).astype(np.uint32)
        image = Image.fromarray(((levels * 255 + 32895) >> 16).astype(np.uint8))
    converted = image.convert(mode)
    return converted if turned is None else converted.transpose(turned)


def _orientation(image: Image.Image) -> Any:
    try:
        return image.getexif().get(ExifTags.Base.Orientation)
    except Exception:  # of what strangers wrote there Pillow raises whatever a number in it leads to
        return None


def _cropped(values_HWC: Bytes, axis: int, size: int, begin: int) -> Bytes:
    if begin >= 0:
        return values_HWC.take(range(begin, begin + size), axis)
    around = [(0, 0)] * values_HWC.ndim
    around[axis] = (-begin, size - values_HWC.shape[axis] + begin)
    return np.pad(values_HWC, around)


def count_resized_pixels(image: Image.Image, preprocessing: Mapping[str, Any]) -> int:
    """How many pixels an image has once it is resized; nothing of it is decoded.

    Raises:
        InputError: as :func:`bytes_from_image`.
    """
    return math.prod(_resized(image, preprocessing["size"]))


def require_fitting_size(preprocessing: Mapping[str, Any], sides: Sequence[int]) -> None:
    """Refuse preprocessing that makes larger images than the model takes: it would take memory without a bound.

    Args:
        preprocessing: of a checkpoint, see :func:`pixels_from_file`.
        sides: height and width that the model takes, −1 for any.

    Raises:
        InputError: its size or crop is none of the model's.
    """
    size, crop = (preprocessing.get(name) for name in ("size", "crop"))
    resized = [size, size] if isinstance(size, int) else size
    kept = resized if crop is None else crop
    if not (_is_pair(resized) and _is_pair(kept) and len(sides) == len(resized)):
        raise _unfit("to a size and a crop of two numbers of at least 1", str([size, crop]))
    for side, made, left in zip(sides, resized, kept, strict=True):
        is_kept = side == left or side < 0 or (crop is None and isinstance(size, int) and left <= side)
        if not is_kept or made > (MOST_REDUCED * side if side > 0 else LONGEST_SIDE):
            raise _unfit(f"to images of {list(sides)}, which the model takes", f"size {size}, crop {crop}")


def _is_pair(sides: Any) -> TypeGuard[Sequence[int]]:
    return isinstance(sides, list | tuple) and len(sides) == 2 and all(type(one) is int and one > 0 for one in sides)


def _unfit(expected: str, found: str) -> InputError:
    return InputError(f"preprocessing {expected}", found[:300], "correct the manifest, or export the model again")


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    try:
        with (
            open_file(path, MOST_FILE_BYTES) as descriptor,
            open(descriptor, "rb", closefd=False) as file,
            Image.open(file) as image,
        ):
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
