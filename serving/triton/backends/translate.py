"""Triton's body of a translator."""

from __future__ import annotations

from serving.engine.translator import Translator
from serving.triton.backends.stream import StreamingModel


class TritonPythonModel(StreamingModel):
    """What Triton calls."""

    load = Translator
