"""Triton's body of a translator."""

from serving.engine.text_generation_model import TranslationModel
from serving.triton.backends.stream import StreamingBody


class TritonPythonModel(StreamingBody):
    load = TranslationModel
