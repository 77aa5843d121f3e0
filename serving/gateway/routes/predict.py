"""``POST /v1/predict``: tensors → tensors, of a custom model; as JSON, or as NumPy's files."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.responses import Response

from attendant.errors import InputError
from clients.predict import TASK, Predictor
from clients.served_model import ServedModel
from clients.triton_client import Array
from serving.gateway.bodies import JSON, parse_json
from serving.gateway.errors import RefusedError
from serving.gateway.gateway import Gateway, while_connected
from serving.gateway.large_answers import json_response
from serving.gateway.schemas.base import FAILURES
from serving.gateway.schemas.predict import Prediction, PredictionRequest
from serving.gateway.tensor_files import NPY, NPZ, read_npy, read_npz, write_npy, write_npz
from serving.gateway.upstream.server import Upstream

router = APIRouter(prefix="/v1", tags=["tensors"], responses=FAILURES)
_FILE = {"schema": {"type": "string", "format": "binary"}}
_BODY = {
    "parameters": [
        {"name": "model", "in": "query", "schema": {"type": "string"}, "description": "of a body that is a NumPy file"}
    ],
    "requestBody": {
        "required": True,
        "content": {JSON: {"schema": PredictionRequest.model_json_schema()}, NPY: _FILE, NPZ: _FILE},
    },
}
_ANSWERS: dict[int | str, dict[str, Any]] = {200: {"model": Prediction, "content": {NPY: _FILE, NPZ: _FILE}}}


@router.post("/predict", response_model=None, responses=_ANSWERS, openapi_extra=_BODY)
async def predict(request: Request) -> Response:
    """A custom model's outputs, in JSON unless the header Accept names one of NumPy's files."""
    gateway = Gateway.of(request)
    name, tensors = await _read(request, gateway.settings.body_bytes)
    gateway.usage(request, name, "tensors")

    async def outputs_of(upstream: Upstream, served: ServedModel) -> tuple[dict[str, Array], list[str]]:
        model = Predictor(upstream.client, served.require_task(TASK))
        inputs = tensors if isinstance(tensors, Mapping) else dict.fromkeys(served.inputs, tensors)
        if not isinstance(tensors, Mapping) and len(served.inputs) > 1:
            raise InputError(f"a .npz file, for the inputs {sorted(served.inputs)}", "a .npy file", f"send {NPZ}")
        labels = model.details.get("labels")
        named = isinstance(labels, list) and all(isinstance(one, str) for one in labels)
        return await model.predict(inputs), list(labels) if named and labels else []

    async def predict_in_turn() -> tuple[dict[str, Array], list[str]]:
        async with gateway.predicted.of(name):
            return await gateway.pool.once(name, outputs_of)

    outputs, labels = await while_connected(request, predict_in_turn())
    wanted = request.headers.get("accept", "").partition(";")[0].strip().lower()
    if wanted == NPZ:
        return Response(write_npz(outputs), media_type=NPZ)
    if wanted == NPY:
        if len(outputs) > 1:
            raise InputError(f"Accept: {NPZ}, for the outputs {sorted(outputs)}", NPY, f"accept {NPZ} or {JSON}")
        return Response(write_npy(*outputs.values()), media_type=NPY)

    def value() -> dict[str, Any]:
        rows = {output: array.tolist() for output, array in outputs.items()}
        best = {output: _best(array, labels) for output, array in outputs.items() if _has_one_each(array, labels)}
        return {"model": name, "outputs": rows, "labels": best}

    return await json_response(value, sum(array.size for array in outputs.values()))


async def _read(request: Request, most_bytes: int) -> tuple[str, dict[str, Any] | Array]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == JSON:
        try:
            body = PredictionRequest.model_validate(parse_json(await request.body()))
        except ValidationError as error:
            raise RequestValidationError(error.errors(include_url=False, include_input=False)) from error
        return body.model, body.inputs
    if kind not in (NPY, NPZ):
        expected = f"Content-Type: {JSON}, {NPY} or {NPZ}"
        raise RefusedError(415, f"expected {expected}; found {kind or 'no content type'}; send one of them")
    name = request.query_params.get("model", "")
    if not 1 <= len(name) <= 256:
        raise InputError("the model's name in the query, ?model=…", repr(name[:20]), "add it", param="model")
    data = await request.body()
    return name, read_npy(data) if kind == NPY else read_npz(data, most_bytes)


def _has_one_each(array: Array, labels: list[str]) -> bool:
    return bool(labels) and array.ndim == 2 and array.shape[1] == len(labels)


def _best(array: Array, labels: list[str]) -> list[str]:
    return [labels[index] for index in array.argmax(1)]
