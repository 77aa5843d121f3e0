"""Triton's body of a captioner: pixels come in, text leaves token by token."""

from typing import Any

from attendant.errors import InputError
from attendant.sampling_tensors import Tensors
from attendant.tensor_names import PIXELS
from serving.engine.text_generation_model import CaptionModel
from serving.triton.backends.stream import StreamingBody


class TritonPythonModel(StreamingBody):
    load = CaptionModel

    def read_input(self, tensors: Tensors) -> Any:
        """The image of a request, ``[C, height, width]``.

        Raises:
            InputError: it has none.
        """
        if PIXELS not in tensors:
            raise InputError(f"the tensor {PIXELS!r}", "none", "send an image")
        return tensors[PIXELS][0]
