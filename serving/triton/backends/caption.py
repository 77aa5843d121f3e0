"""Triton's body of a captioner: pixels come in, text leaves token by token."""

from serving.engine.text_generation_model import CaptionModel
from serving.triton.backends.stream import StreamingBody


class TritonPythonModel(StreamingBody):
    load = CaptionModel
