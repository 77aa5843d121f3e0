"""Triton's body of a captioner: pixels come in, text leaves token by token."""

from __future__ import annotations

from typing import Any

from models.tensor_names import PIXELS
from serving.backends import triton_api
from serving.backends.stream import StreamingModel
from serving.generation.captioner import Captioner


class TritonPythonModel(StreamingModel):
    """What Triton calls."""

    load = Captioner

    def subject(self, request: Any) -> Any:
        """The image that a request shows, ``[C, height, width]``."""
        return triton_api.tensor_of(request, PIXELS)
