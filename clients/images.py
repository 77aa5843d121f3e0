"""The pixels that a served model takes: from a file, by its own preprocessing, or checked before they are sent.

Legend: B batch.
"""

from __future__ import annotations

from pathlib import Path

from clients.served_model import ServedModel
from clients.triton_client import Array
from models.errors import InputError
from models.images import bytes_from_file, pixels_from_file
from models.tensor_names import PIXELS


def file_pixels(model: ServedModel, path: Path) -> Array:
    """An image file as the model wants it: float32 ``[C, height, width]``, or uint8 ``[height, width, C]``.

    Raises:
        InputError: the file is no image, or the model has no preprocessing for files.
    """
    preprocessing = model.parameters.get("preprocessing")
    if preprocessing is None:
        raise InputError(
            f"{model.name!r} to say how to prepare an image",
            "no preprocessing in its configuration",
            "send prepared pixels from Python",
        )
    prepare = bytes_from_file if model.dtypes[PIXELS] == "uint8" else pixels_from_file
    return prepare(path, preprocessing)


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
    if pixels.dtype != dtype or shape != expected:
        sides = ", ".join(map(str, expected))
        raise InputError(
            f"{dtype} pixels [{'batch, ' if batched else ''}{sides}]",
            f"{pixels.dtype} {list(pixels.shape)}",
            "convert or reshape them",
        )
