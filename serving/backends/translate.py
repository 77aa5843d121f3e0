"""Triton's body of a translator."""

from __future__ import annotations

from serving.backends.stream import StreamingModel
from serving.generation.translator import Translator


class TritonPythonModel(StreamingModel):
    """What Triton calls."""

    load = Translator
