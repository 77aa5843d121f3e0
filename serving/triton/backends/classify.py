"""Triton's body of a classifier: requests that the dynamic batcher gathered are one run of the graph."""

from typing import Any

from attendant.errors import InputError
from attendant.tensor_names import PIXELS
from serving.engine.classifier import ImageClassifier, Images
from serving.triton.backends import triton_api
from serving.triton.backends.given_up import ends_if_given_up


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        with triton_api.loaded_artefact(args) as artefact:
            self._classifier = ImageClassifier(*artefact)

    @ends_if_given_up
    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer each request with logits and with the maps that it requests, or with its own error."""
        answers = self._classifier.answer([_images(request) for request in requests])
        return [
            triton_api.error_response(answer)
            if isinstance(answer, Exception)
            else triton_api.response({name: answer[name] for name in answer if name in requested})
            for answer, requested in zip(answers, map(triton_api.requested_outputs, requests), strict=True)
        ]


def _images(request: Any) -> Images | InputError:
    pixels = triton_api.tensor_of(request, PIXELS)
    assert pixels is not None, "Triton lets no request without it pass"
    try:
        return Images(pixels=pixels, explain=triton_api.asks_to_explain(request))
    except InputError as error:
        return error
