"""``POST /v1/embeddings``: texts → vectors."""

import asyncio
import base64
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from starlette.responses import Response

from attendant.errors import CancelledError, DeadlineError, InputError
from clients.embed import TASK, Embedder
from clients.served_model import ServedModel
from clients.triton_client import Array
from serving.gateway.answers import estimate_tokens
from serving.gateway.bodies import JsonRoute
from serving.gateway.gateway import Gateway, while_connected
from serving.gateway.large_answers import json_response
from serving.gateway.schemas.base import FAILURES
from serving.gateway.schemas.embeddings import EmbeddingList, EmbeddingRequest
from serving.gateway.upstream.server import Upstream
from serving.gateway.upstream.unknown_models import require_task

router = APIRouter(prefix="/v1", tags=["text"], responses=FAILURES, route_class=JsonRoute)


@router.post("/embeddings", response_model=None, responses={200: {"model": EmbeddingList}})
async def embed(request: Request, body: EmbeddingRequest) -> Response:
    """Turn texts into vectors."""

    async def vectors(upstream: Upstream, served: ServedModel) -> tuple[Array, int]:
        model = Embedder(upstream.client, require_task(served, TASK))
        return await model.embed_counted(body.texts(), body.pooling, body.parse_special)

    gateway = Gateway.of(request)
    usage = gateway.usage(request, body.model, body.input)
    await gateway.reserve_tokens(request, body.model, body.texts(), None)
    try:
        vectors_BE, usage.prompt = await while_connected(request, gateway.pool.once(body.model, vectors))
    except (asyncio.CancelledError, CancelledError, DeadlineError):  # the server may have done the work, or goes on
        usage.unanswered += sum(map(estimate_tokens, body.texts()))
        raise

    if body.dimensions is not None:
        vectors_BE = _shorten(vectors_BE, body.dimensions)

    def value() -> dict[str, Any]:
        data = [
            {"object": "embedding", "index": index, "embedding": _encode_vector(vector_E, body.encoding_format)}
            for index, vector_E in enumerate(vectors_BE)
        ]
        return {"object": "list", "model": body.model, "data": data, "usage": usage.to_json()}

    return await json_response(value, vectors_BE.size)


def _shorten(vectors_BE: Array, dimensions: int) -> Array:
    # As OpenAI's do; of a model that was not trained for it (Matryoshka), the first numbers say less than the whole.
    width = vectors_BE.shape[1]
    if dimensions > width:
        raise InputError(f"dimensions of at most {width}", str(dimensions), "ask for fewer", param="dimensions")
    first_BD = vectors_BE[:, :dimensions]
    shortened: Array = first_BD / np.maximum(np.linalg.norm(first_BD, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return shortened


def _encode_vector(vector_E: Array, encoding: str) -> list[float] | str:
    if encoding == "base64":
        return base64.b64encode(vector_E.astype("<f4").tobytes()).decode()
    values: list[float] = vector_E.tolist()
    return values
