"""Triton's body of a text encoder: requests that the dynamic batcher gathered are one run of the graph.

The graph runs in this process, or is a model of its own, which Triton's TensorRT backend serves and this one calls.
"""

from functools import partial
from typing import Any

import numpy as np

from attendant.errors import InputError
from attendant.param import BYTES_OF_CHARACTER
from attendant.tensor_names import TEXT_INPUT, TOKEN_IDS, TOKEN_MASK
from attendant.tokenizer import SpecialText
from serving.engine.embedder import EncodedTexts, TextEmbedder
from serving.triton.backends import triton_api
from serving.triton.backends.given_up import ends_if_given_up


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        """Load the tokenizer, and the graph unless another model runs it."""
        graph_model = triton_api.graph_model(args)
        graph = partial(triton_api.call_model, graph_model) if graph_model else None
        with triton_api.loaded_artefact(args) as artefact:
            self._embedder = TextEmbedder(*artefact, graph=graph)

    @ends_if_given_up
    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer each request with the outputs that it requests, or with its own error."""
        answers = triton_api.answer_without_explanation(requests, self._answers)
        return [
            triton_api.error_response(answer) if isinstance(answer, Exception) else _response(request, answer)
            for request, answer in zip(requests, answers, strict=True)
        ]

    def _answers(self, requests: list[Any]) -> list[EncodedTexts | InputError]:
        requested = set().union(*(triton_api.requested_outputs(request) for request in requests))
        return self._embedder.embed([self._texts(request) for request in requests], requested)

    def _texts(self, request: Any) -> list[str]:
        array = triton_api.tensor_of(request, TEXT_INPUT)
        assert array is not None, "Triton lets no request without it pass"
        enough = BYTES_OF_CHARACTER * self._embedder.max_characters + 1  # to see that a text is too long
        kind = SpecialText if triton_api.parses_special(request) else str
        return [kind(text[:enough].decode(errors="replace")) for text in array.reshape(-1)]


def _response(request: Any, answer: EncodedTexts) -> Any:
    outputs = {**answer.vectors, TOKEN_MASK: answer.token_mask, TOKEN_IDS: answer.token_ids.astype(np.int32)}
    requested = triton_api.requested_outputs(request)
    return triton_api.response({name: np.ascontiguousarray(outputs[name]) for name in outputs if name in requested})
