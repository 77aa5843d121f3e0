"""Triton's body of a custom module: requests that the dynamic batcher gathered are as few runs as can be."""

from typing import Any

from attendant.errors import AttendantError
from serving.engine.predictor import predict
from serving.runtime.base import Array
from serving.runtime.create_runners import create_runners
from serving.triton.backends import triton_api
from serving.triton.backends.given_up import ends_if_given_up


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        with triton_api.loaded_artefact(args) as artefact:
            self._runner, self._below = create_runners(*artefact)["model"], artefact[1].config.get("below", {})

    @ends_if_given_up
    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer each request with the outputs that it requests, or with its own error."""
        answers = triton_api.answer_without_explanation(requests, self._answers)
        return [
            triton_api.error_response(answer)
            if isinstance(answer, Exception)
            else triton_api.response({name: answer[name] for name in triton_api.requested_outputs(request)})
            for request, answer in zip(requests, answers, strict=True)
        ]

    def _answers(self, requests: list[Any]) -> list[dict[str, Array] | AttendantError]:
        return predict(self._runner, [self._tensors(request) for request in requests], self._below)

    def _tensors(self, request: Any) -> dict[str, Array]:
        tensors = {spec.name: triton_api.tensor_of(request, spec.name) for spec in self._runner.signature.inputs}
        return {name: array for name, array in tensors.items() if array is not None}
