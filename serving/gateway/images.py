"""Images that strangers send: refused by size, format and number of pixels before anything is decoded."""

import asyncio
import binascii
import io
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from PIL import Image

from attendant.errors import InputError
from clients.images import count_made_pixels, image_pixels
from clients.served_model import ServedModel
from clients.statuses import reading
from clients.triton_client import Array
from serving.gateway.budgets import Budget
from serving.gateway.settings import GatewaySettings

Result = TypeVar("Result")
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
AT_ONCE_PIXELS = 1 << 16
"""Larger images are decoded in another thread, so that other requests need not wait, and within a budget of pixels."""
AT_ONCE_BYTES = 1 << 16
MOST_SCANS = 50
"""Of a progressive JPEG: each walks all of the image again, though it may have 12 bytes. Programs write ten or so."""
_SCAN = b"\xff\xda"  # the marker, which no compressed data holds
MOST_PROFILES = 8
"""Of a PNG, each of which is unpacked, up to a megabyte; it may have one."""
_PROFILE = b"iCCP"
# A thread's memory is not another's, and what it has freed it keeps for itself: few threads, and always the same ones.
_DECODERS = ThreadPoolExecutor(max_workers=2, thread_name_prefix="images")
_DATA_URL = re.compile(r"data:image/[a-z+.-]+;base64,", re.ASCII)
_SIGNATURES = {"PNG": b"\x89PNG", "JPEG": b"\xff\xd8\xff", "GIF": b"GIF8", "WebP": b"RIFF", "BMP": b"BM"}
_UNREADABLE = (OSError, SyntaxError, ValueError, EOFError, KeyError, IndexError, TypeError, OverflowError)
_BOMBS = (Image.DecompressionBombError, Image.DecompressionBombWarning)


def bytes_of_base64(text: str) -> bytes:
    """The bytes of an image in base64, with or without ``data:image/png;base64,`` in front.

    Raises:
        InputError: it is no base64.
    """
    prefix = _DATA_URL.match(text)
    try:
        return binascii.a2b_base64(text[prefix.end() :] if prefix else text, strict_mode=True)
    except ValueError as error:
        remedy = "encode the bytes of a PNG or JPEG file"
        raise InputError("an image in base64", str(error), remedy, param="image") from error


def opened_image(data: bytes, settings: GatewaySettings) -> Image.Image:
    """An image of which no more than its header is read.

    Raises:
        InputError: it is none, of another format, or larger than allowed.
    """
    if len(data) > settings.image_bytes:
        expected = f"an image of at most {settings.image_bytes} bytes"
        raise InputError(expected, str(len(data)), "send a smaller file", param="image")
    if data.startswith(_SIGNATURES["PNG"]) and (profiles := data.count(_PROFILE)) > MOST_PROFILES:
        raise _too_often(f"a PNG file of at most {MOST_PROFILES} colour profiles", profiles)
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
    except _BOMBS as error:
        raise _too_many(settings, "more") from error
    except _UNREADABLE as error:
        raise _unreadable(data) from error
    if image.width * image.height > settings.image_pixels:
        raise _too_many(settings, f"{image.width} × {image.height}")
    if data.startswith(_SIGNATURES["JPEG"]) and (scans := data.count(_SCAN)) > MOST_SCANS:  # several pictures, too
        raise _too_often(f"a JPEG file of at most {MOST_SCANS} scans", scans)
    return image


async def pixels_of(data: bytes, model: ServedModel, settings: GatewaySettings, budget: Budget) -> Array:
    """An image as a model wants it.

    Args:
        data: a file.
        model: that gets it.
        settings: with the bounds of an image.
        budget: of pixels that are decoded at once, of all requests.

    Raises:
        InputError: as :func:`opened_image`, it is damaged, or the model prepares no images.
    """
    if len(data) <= AT_ONCE_BYTES:
        image = opened_image(data, settings)
    else:
        image = await _in_thread(opened_image, data, settings)
    with reading(model.name):
        made = count_made_pixels(model, image)
    if made > settings.image_pixels:
        raise _too_many(settings, f"one that {model.name!r} makes {made} pixels of")
    most = max(image.width * image.height, made)
    if most <= AT_ONCE_PIXELS and len(data) <= AT_ONCE_BYTES:
        return _decode(image, data, model)
    return await budget.run(most, partial(_in_thread, _decode, image, data, model))


def _in_thread(work: Callable[..., Result], *inputs: object) -> asyncio.Future[Result]:
    return asyncio.get_running_loop().run_in_executor(_DECODERS, work, *inputs)


def _decode(image: Image.Image, data: bytes, model: ServedModel) -> Array:
    try:
        image.load()
    except (*_BOMBS, *_UNREADABLE) as error:
        raise _unreadable(data) from error
    with reading(model.name):
        return image_pixels(model, image)


def _unreadable(data: bytes) -> InputError:
    kind = next((name for name, start in _SIGNATURES.items() if data.startswith(start)), None)
    found = f"a damaged {kind} file" if kind else f"{len(data)} bytes of another kind" if data else "an empty file"
    return InputError(f"an image file: {', '.join(FORMATS)}", found, "send a PNG or JPEG file", param="image")


def _too_often(expected: str, found: int) -> InputError:
    return InputError(expected, str(found), "save it once more, as any program does", param="image")


def _too_many(settings: GatewaySettings, found: str) -> InputError:
    expected = f"an image of at most {settings.image_pixels} pixels"
    return InputError(expected, found, "send a smaller image", param="image")
