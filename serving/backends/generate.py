"""Triton's body of a language model."""

from __future__ import annotations

from serving.backends.stream import StreamingModel
from serving.generation.generator import Generator


class TritonPythonModel(StreamingModel):
    """What Triton calls."""

    load = Generator
