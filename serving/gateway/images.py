"""Images that strangers send: decoded by processes of bounded time and memory; their senders take turns."""

import binascii
import re
from collections.abc import Hashable

from attendant.errors import BusyError, InputError
from clients.images import count_made_pixels
from clients.served_model import ServedModel
from clients.statuses import reading
from clients.triton_client import Array
from serving.gateway.bounded_process import Bounds
from serving.gateway.bounded_workers import BoundedWorkers, LateError, TooMuchError
from serving.gateway.budgets import FairTurns
from serving.gateway.image_process import PARAM, Wanted, decode_pixels, open_image, pixels_in, request_of, serve_images
from serving.gateway.settings import GatewaySettings

DECODERS, DECODERS_EACH = 3, 2
"""Processes that decode, and of them for one owner: another's image finds one that is free."""
AT_ONCE_PIXELS = 1 << 14
"""Larger images, and those of larger files, are another process's work: of these, none takes 0.02 s."""
AT_ONCE_BYTES = 1 << 11
PIXELS_A_SECOND = 12_500_000
"""That a decoder is given a processor for: a tenth of what it reads of honest files."""
LEAST_S = 0.5
LONGEST_S = 10.0
"""By the clock."""
BYTES_A_PIXEL = 28
"""In memory: as it is read, in the mode that the model wants, turned, brought to its size, and as numbers."""
LEAST_BYTES = 1 << 26
_DATA_URL = re.compile(r"data:image/[a-z+.-]+;base64,", re.ASCII)


class Images:
    """Decodes images of all requests; for one event loop."""

    def __init__(self, settings: GatewaySettings) -> None:
        """Start nothing yet.

        Args:
            settings: with the bounds of an image.
        """
        self._settings = settings
        processor_s = max(LEAST_S, settings.image_pixels / PIXELS_A_SECOND)
        self._bounds = Bounds(
            processor_s=processor_s,
            longest_s=max(LONGEST_S, 4 * processor_s),
            more_bytes=LEAST_BYTES + 4 * settings.image_bytes + BYTES_A_PIXEL * settings.image_pixels,
        )
        self._workers = BoundedWorkers(serve_images, DECODERS, self._bounds)
        self._turns = FairTurns(DECODERS, DECODERS_EACH)

    async def pixels(self, data: bytes, model: ServedModel, owner: Hashable) -> Array:
        """An image as a model wants it.

        Args:
            data: a file.
            model: that gets it.
            owner: who sent it; many images of one hold up nobody else's.

        Raises:
            InputError: it is none, of another format, too large or damaged, it takes too much to decode, or the model
                prepares no images.
            BusyError: it takes too long to decode: the machine is busy.
            LostError: somebody ends the processes that decode.
        """
        if len(data) > self._settings.image_bytes:
            expected = f"an image of at most {self._settings.image_bytes} bytes"
            raise InputError(expected, str(len(data)), "send a smaller file", param=PARAM)
        with reading(model.name):
            wanted = Wanted.by(model, self._settings.image_pixels)
            if len(data) <= AT_ONCE_BYTES:
                image = open_image(data, wanted.most_pixels)
                if max(image.width * image.height, count_made_pixels(model, image)) <= AT_ONCE_PIXELS:
                    return decode_pixels(data, wanted)
        try:
            answer = await self._turns.run(owner, lambda: self._workers.ask(request_of(data, wanted)))
        except TooMuchError:
            most = f"{self._bounds.processor_s:g} s of a processor, and {self._bounds.more_bytes >> 20} MiB"
            raise InputError(
                f"an image that is decoded within {most}", "one that takes more", "save it anew", param=PARAM
            ) from None
        except LateError:
            longest = f"an image decoded within {self._bounds.longest_s:g} s"
            raise BusyError(longest, "none", "ask again") from None
        with reading(model.name):
            return pixels_in(answer)

    def close(self) -> None:
        """End all processes."""
        self._workers.close()


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
        raise InputError("an image in base64", str(error), remedy, param=PARAM) from error
