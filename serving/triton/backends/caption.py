"""Triton's body of a captioner: pixels come in, text leaves token by token."""

from __future__ import annotations

from typing import Any

from attendant.errors import InputError
from attendant.sampling_tensors import Tensors
from attendant.tensor_names import PIXELS
from serving.engine.captioner import Captioner
from serving.triton.backends.stream import StreamingModel


class TritonPythonModel(StreamingModel):
    """What Triton calls."""

    load = Captioner

    def subject(self, tensors: Tensors) -> Any:
        """The image that a request shows, ``[C, height, width]``.

        Raises:
            InputError: it shows none.
        """
        if PIXELS not in tensors:
            raise InputError(f"the tensor {PIXELS!r}", "none", "send an image")
        return tensors[PIXELS][0]
