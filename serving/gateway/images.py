"""Images that strangers send: refused by size, format and number of pixels before anything is decoded."""

import asyncio
import base64
import binascii
import io
import re

from PIL import Image

from attendant.errors import InputError
from clients.images import image_pixels
from clients.served_model import ServedModel
from clients.triton_client import Array
from serving.gateway.settings import GatewaySettings

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
AT_ONCE_PIXELS = 1 << 16  # more than so many are decoded in another thread, so that other requests need not wait
_DATA_URL = re.compile(r"data:image/[a-z+.-]+;base64,", re.ASCII)
_UNREADABLE = (OSError, SyntaxError, ValueError, EOFError, KeyError, IndexError, TypeError, OverflowError)
_BOMBS = (Image.DecompressionBombError, Image.DecompressionBombWarning)


def bytes_of_base64(text: str) -> bytes:
    """The bytes of an image in base64, with or without ``data:image/png;base64,`` in front.

    Raises:
        InputError: it is no base64.
    """
    try:
        return base64.b64decode(_DATA_URL.sub("", text, count=1), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError("an image in base64", str(error), "encode the bytes of a PNG or JPEG file") from error


def opened_image(data: bytes, settings: GatewaySettings) -> Image.Image:
    """An image of which no more than its header is read.

    Raises:
        InputError: it is none, of another format, or larger than allowed.
    """
    if len(data) > settings.image_bytes:
        raise InputError(f"an image of at most {settings.image_bytes} bytes", str(len(data)), "send a smaller file")
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
    except _BOMBS as error:
        raise _too_many(settings, str(error)) from error
    except _UNREADABLE as error:
        raise _unreadable(error) from error
    if image.width * image.height > settings.image_pixels:
        raise _too_many(settings, f"{image.width} × {image.height}")
    return image


async def pixels_of(data: bytes, model: ServedModel, settings: GatewaySettings) -> Array:
    """An image as a model wants it.

    Raises:
        InputError: as :func:`opened_image`, it is damaged, or the model prepares no images.
    """
    image = opened_image(data, settings)
    if image.width * image.height <= AT_ONCE_PIXELS:
        return _decode(image, model)
    return await asyncio.to_thread(_decode, image, model)


def _decode(image: Image.Image, model: ServedModel) -> Array:
    try:
        image.load()
    except _BOMBS as error:
        raise _unreadable(error) from error
    except _UNREADABLE as error:
        raise _unreadable(error) from error
    return image_pixels(model, image)


def _unreadable(error: Exception) -> InputError:
    return InputError(f"an image file: {', '.join(FORMATS)}", str(error), "send a PNG or JPEG file")


def _too_many(settings: GatewaySettings, found: str) -> InputError:
    return InputError(f"an image of at most {settings.image_pixels} pixels", found, "send a smaller image")
