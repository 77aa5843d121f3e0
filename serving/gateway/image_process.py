"""The process in which images of strangers are decoded: what a file makes a decoder do, no count of its parts says."""

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from PIL import Image

from attendant.errors import AttendantError, InputError
from attendant.tensor_names import PIXELS
from clients.images import count_made_pixels, image_pixels
from clients.served_model import ServedModel
from clients.triton_client import Array
from serving.gateway.bounded_process import answer_bounded

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
_SIGNATURES = {"PNG": b"\x89PNG", "JPEG": b"\xff\xd8\xff", "GIF": b"GIF8", "WebP": b"RIFF", "BMP": b"BM"}
_UNREADABLE = (OSError, SyntaxError, ValueError, EOFError, KeyError, IndexError, TypeError, OverflowError)
_BOMBS = (Image.DecompressionBombError, Image.DecompressionBombWarning)
PARAM = "image"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be made of an image.

    Attributes:
        model: that gets it, its name.
        sides: of its pixels, −1 where they vary.
        dtype: of its pixels.
        preprocessing: of its configuration; none where it prepares no images.
        most_pixels: of an image, and of what is made of one.
    """

    model: str
    sides: tuple[int, ...]
    dtype: str
    preprocessing: Mapping[str, Any] | None
    most_pixels: int

    @classmethod
    def by(cls, model: ServedModel, most_pixels: int) -> "Wanted":
        """By a model."""
        preprocessing = model.parameters.get("preprocessing")
        return cls(model.name, tuple(model.inputs[PIXELS]), model.dtypes[PIXELS], preprocessing, most_pixels)

    def served(self) -> ServedModel:
        """The model, as far as images go."""
        return ServedModel(
            name=self.model,
            decoupled=False,
            max_batch=1,
            inputs={PIXELS: tuple(self.sides)},
            outputs={},
            dtypes={PIXELS: self.dtype},
            parameters={} if self.preprocessing is None else {"preprocessing": self.preprocessing},
        )


def serve_images(descriptor: int) -> None:
    """Decode what comes; see :func:`serving.gateway.bounded_process.answer_bounded`."""
    Image.preinit()
    Image.init()  # what reads WebP: it would be imported within the first image's time
    answer_bounded(descriptor, _answer)


def request_of(data: bytes, wanted: Wanted) -> bytes:
    """What the process is sent."""
    return json.dumps(asdict(wanted)).encode() + b"\n" + data


def pixels_in(answer: bytes) -> Array:
    """What the process has made of an image.

    Raises:
        InputError: it is none, of another format, too large or damaged, or the model prepares no images.
        ValueError: the model's configuration is not one of ours.
    """
    head, _, rest = answer.partition(b"\n")
    said = json.loads(head)
    if "error" in said:
        raise InputError(*said["error"], param=said["param"])
    if "fault" in said:
        raise ValueError(said["fault"])
    return np.frombuffer(rest, said["dtype"]).reshape(said["shape"])


def _answer(request: bytes) -> bytes:
    head, _, data = request.partition(b"\n")
    try:
        pixels = decode_pixels(data, Wanted(**json.loads(head)))
    except InputError as error:
        return json.dumps({"error": [error.expected, error.found, error.remedy], "param": error.param}).encode()
    except MemoryError:
        raise
    except (Exception, AttendantError) as error:  # whatever a configuration of others leads to
        return json.dumps({"fault": repr(error)[:200]}).encode()
    said = {"dtype": str(pixels.dtype), "shape": pixels.shape}
    return json.dumps(said).encode() + b"\n" + np.ascontiguousarray(pixels).tobytes()


def decode_pixels(data: bytes, wanted: Wanted) -> Array:
    """An image as a model wants it.

    Args:
        data: a file.
        wanted: what is to be made of it.

    Raises:
        InputError: it is none, of another format, too large or damaged, or the model prepares no images.
    """
    image, model = open_image(data, wanted.most_pixels), wanted.served()
    made = count_made_pixels(model, image)
    if made > wanted.most_pixels:
        raise too_many(wanted.most_pixels, f"one that {wanted.model!r} makes {made} pixels of")
    try:
        image.load()
    except (*_BOMBS, *_UNREADABLE) as error:
        raise _unreadable(data) from error
    return image_pixels(model, image)


def open_image(data: bytes, most_pixels: int) -> Image.Image:
    """An image of which no more than its header is read.

    Raises:
        InputError: it is none, of another format, or has more pixels.
    """
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
    except _BOMBS as error:
        raise too_many(most_pixels, "more") from error
    except _UNREADABLE as error:
        raise _unreadable(data) from error
    if image.width * image.height > most_pixels:
        raise too_many(most_pixels, f"{image.width} × {image.height}")
    return image


def too_many(most_pixels: int, found: str) -> InputError:
    """What is said of an image with too many pixels."""
    return InputError(f"an image of at most {most_pixels} pixels", found, "send a smaller image", param=PARAM)


def _unreadable(data: bytes) -> InputError:
    kind = next((name for name, start in _SIGNATURES.items() if data.startswith(start)), None)
    found = f"a damaged {kind} file" if kind else f"{len(data)} bytes of another kind" if data else "an empty file"
    return InputError(f"an image file: {', '.join(FORMATS)}", found, "send a PNG or JPEG file", param=PARAM)
