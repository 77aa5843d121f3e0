"""Triton's body of a language model."""

from __future__ import annotations

from serving.engine.generator import Generator
from serving.triton.backends.stream import StreamingModel


class TritonPythonModel(StreamingModel):
    """What Triton calls."""

    load = Generator
