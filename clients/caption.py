"""Describe images with a captioner on a Triton server, token by token.

Legend: C channels.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np

from attendant.sampling_params import SamplingParams
from attendant.tensor_names import PIXELS
from clients.answer import Delta
from clients.images import file_pixels, require_pixels
from clients.text import StreamingModel
from clients.triton_client import Array


class Captioner(StreamingModel):
    """A served model of the task ``caption``."""

    task = "caption"

    def stream(self, pixels: Array, options: SamplingParams | None = None) -> AsyncIterator[Delta]:
        """The caption in deltas, as they come; leaving the loop early cancels the rest.

        Args:
            pixels: a prepared image, float32 ``[C, height, width]``.
            options: how it is to be decoded; an explained delta comes with its alignment to the image's tokens.

        Raises:
            InputError: shape or type is not the model's.
            AttendantError: as :meth:`StreamingModel.stream_deltas` raises.
        """
        require_pixels(self.model, pixels, batched=False)
        return self.stream_deltas({PIXELS: np.ascontiguousarray(pixels)[None]}, options)

    def stream_file(self, path: Path, options: SamplingParams | None = None) -> AsyncIterator[Delta]:
        """The caption of an image file; see :meth:`stream`.

        Raises:
            InputError: the file is no image, or the model has no preprocessing for files.
        """
        return self.stream(file_pixels(self.model, path), options)
