"""Triton's body of a language model."""

from serving.engine.text_generation_model import LanguageModel
from serving.triton.backends.stream import StreamingBody


class TritonPythonModel(StreamingBody):
    load = LanguageModel
