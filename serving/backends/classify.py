"""Triton's body of a classifier: requests that the dynamic batcher gathered are one run of the graph."""

from __future__ import annotations

from typing import Any

from models.tensor_names import LOGITS, PIXELS
from serving.backends import triton_api
from serving.generation.classifier import classify
from serving.runtime.ort_runner import ort_runners


class TritonPythonModel:
    """What Triton calls; one instance a stub process."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the graph."""
        self._runner = ort_runners(*triton_api.load_artefact(args))["model"]

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer each request with logits, or with its own error."""
        answers = classify(self._runner, [triton_api.tensor_of(request, PIXELS) for request in requests])  # type: ignore[misc]
        return [
            triton_api.error_response(answer)
            if isinstance(answer, Exception)
            else triton_api.response({LOGITS: answer})
            for answer in answers
        ]
