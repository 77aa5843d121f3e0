"""``POST /v1/predict``: tensors → tensors, of a custom model; as JSON, or as NumPy's files."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.responses import Response

from attendant.errors import InputError
from attendant.tensor_files import NPY, NPZ, npy_header, npz_headers, read_npy, read_npz, write_npy, write_npz
from clients.predict import TASK, Predictor
from clients.served_model import ServedModel
from clients.triton_client import Array
from serving.gateway.bodies import JSON, parse_json
from serving.gateway.errors import RefusedError
from serving.gateway.gateway import Gateway, while_connected
from serving.gateway.large_answers import MOST_VALUES, LargeResponse, count_values, json_response, require_values
from serving.gateway.middleware.access import FREE_BYTES, owner_of
from serving.gateway.schemas.base import FAILURES
from serving.gateway.schemas.predict import Prediction, PredictionRequest
from serving.gateway.upstream.server import Upstream

router = APIRouter(prefix="/v1", tags=["tensors"], responses=FAILURES)
_FILE = {"schema": {"type": "string", "format": "binary"}}
_BODY = {
    "parameters": [
        {"name": "model", "in": "query", "schema": {"type": "string"}, "description": "of a body that is a NumPy file"},
        {
            "name": "label_names",
            "in": "query",
            "schema": {"type": "boolean"},
            "description": "whether the answer names all labels of the model that gave it",
        },
    ],
    "requestBody": {
        "required": True,
        "content": {JSON: {"schema": PredictionRequest.model_json_schema()}, NPY: _FILE, NPZ: _FILE},
    },
}
_ANSWERS: dict[int | str, dict[str, Any]] = {200: {"model": Prediction, "content": {NPY: _FILE, NPZ: _FILE}}}
_VALUE_BYTES = 4
_UNKNOWN_AT_ONCE = 8
"""Requests to a model whose outputs vary in size, until the first has been answered."""


class TensorFile(NamedTuple):
    """A body that is one of NumPy's files, and has not been read.

    Attributes:
        kind: its content type.
        data: the body.
    """

    kind: str
    data: bytes


@router.post("/predict", response_model=None, responses=_ANSWERS, openapi_extra=_BODY)
async def predict(request: Request) -> Response:
    """A custom model's outputs, in JSON unless the header Accept names one of NumPy's files."""
    gateway = Gateway.of(request)
    name, tensors = await _read(request)
    wanted = request.headers.get("accept", "").partition(";")[0].strip().lower()
    gateway.usage(request, name, "tensors")

    async def outputs_of(upstream: Upstream, served: ServedModel) -> tuple[dict[str, Array], list[str]]:
        model = Predictor(upstream.client, served.require_task(TASK))
        labels = model.details.get("labels")
        named = isinstance(labels, list) and all(isinstance(one, str) for one in labels)
        if isinstance(tensors, TensorFile):
            size, rows, arrays = await _open_file(gateway, model, served, tensors)
        else:
            size, rows = 0, max((len(rows) for rows in tensors.values() if isinstance(rows, list)), default=1)
        size += _expect_bytes(gateway, served, rows, wanted)

        async def ask() -> dict[str, Array]:
            found = await model.predict(await arrays() if isinstance(tensors, TensorFile) else tensors)
            bytes_found = sum(array.nbytes for array in found.values())
            gateway.answer_bytes[name] = max(bytes_found, gateway.answer_bytes.get(name, 0))
            return found

        # A call to Triton goes on when its client has left, and keeps its tensors: so does its part of the budget.
        outputs = await (ask() if size <= FREE_BYTES else gateway.tensors.run(name, size, ask))
        return outputs, list(labels) if named and labels else []

    async def predict_in_turn() -> tuple[dict[str, Array], list[str]]:
        async with gateway.predicted.of(name, owner_of(request.scope)):
            return await gateway.pool.once(name, outputs_of)

    outputs, labels = await while_connected(request, predict_in_turn())
    if wanted == NPZ:
        return LargeResponse(await asyncio.to_thread(write_npz, outputs), NPZ, gateway.unread)
    if wanted == NPY:
        if len(outputs) != 1:
            raise InputError(f"Accept: {NPZ}, for the outputs {sorted(outputs)}", NPY, f"accept {NPZ} or {JSON}")
        return LargeResponse(await asyncio.to_thread(write_npy, *outputs.values()), NPY, gateway.unread)
    count = sum(count_values(array) for array in outputs.values())
    require_values(count)

    def value() -> dict[str, Any]:
        best = {output: _best(array, labels) for output, array in outputs.items() if _has_one_each(array, labels)}
        named = {"label_names": labels} if request.query_params.get("label_names") == "true" else {}
        return {"model": name, "outputs": outputs, "labels": best, **named}

    return await json_response(value, count, gateway.unread)


async def _open_file(
    gateway: Gateway, model: Predictor, served: ServedModel, file: TensorFile
) -> tuple[int, int, Callable[[], Awaitable[dict[str, Array]]]]:
    # How many bytes and rows its arrays have, as their headers say, and what reads them: nothing is unpacked or
    # converted before the headers were held against the model's contract.
    most = gateway.settings.body_bytes
    if file.kind == NPY:
        if len(served.inputs) != 1:
            raise InputError(f"a .npz file, for the inputs {sorted(served.inputs)}", "a .npy file", f"send {NPZ}")
        (only,) = served.inputs
        headers = {only: npy_header(file.data)}
        unpacked = 0
    else:
        headers = await asyncio.to_thread(npz_headers, file.data, most)
        unpacked = sum(header.nbytes for header in headers.values())
    size = unpacked + model.require_shapes({name: header.shape for name, header in headers.items()})
    if size > gateway.settings.tensor_bytes:
        expected = f"tensors of at most {gateway.settings.tensor_bytes} bytes, unpacked and in the model's types"
        raise RefusedError(413, f"expected {expected}; found {size}; send fewer rows")

    async def arrays() -> dict[str, Array]:
        return {only: read_npy(file.data)} if file.kind == NPY else await asyncio.to_thread(read_npz, file.data, most)

    return size, max((header.shape[0] for header in headers.values() if header.shape), default=1), arrays


def _expect_bytes(gateway: Gateway, served: ServedModel, rows: int, wanted: str) -> int:
    # Of the outputs, by their sizes, or by former answers where these vary. JSON of too many is refused beforehand.
    shapes = served.outputs.values()
    fixed = sum(math.prod(shape) * (rows if served.max_batch else 1) for shape in shapes if -1 not in shape)
    if wanted not in (NPY, NPZ):
        require_values(fixed)
    if any(-1 in shape for shape in shapes):
        return gateway.answer_bytes.get(served.name, gateway.settings.tensor_bytes // _UNKNOWN_AT_ONCE)
    return _VALUE_BYTES * fixed


async def _read(request: Request) -> tuple[str, dict[str, Any] | TensorFile]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == JSON:
        data = await request.body()
        is_small = len(data) <= FREE_BYTES
        parsed = parse_json(data) if is_small else await asyncio.to_thread(parse_json, data, MOST_VALUES)
        try:
            body = PredictionRequest.model_validate(parsed)
        except ValidationError as error:
            raise RequestValidationError(error.errors(include_url=False, include_input=False)) from error
        return body.model, body.inputs
    if kind not in (NPY, NPZ):
        expected = f"Content-Type: {JSON}, {NPY} or {NPZ}"
        raise RefusedError(415, f"expected {expected}; found {kind or 'no content type'}; send one of them")
    name = request.query_params.get("model", "")
    if not 1 <= len(name) <= 256:
        raise InputError("the model's name in the query, ?model=…", repr(name[:20]), "add it", param="model")
    return name, TensorFile(kind, await request.body())


def _has_one_each(array: Array, labels: list[str]) -> bool:
    return bool(labels) and array.ndim == 2 and array.shape[1] == len(labels)


def _best(array: Array, labels: list[str]) -> list[str | None]:
    largest = [(row[at], at) for row, at in zip(array, array.argmax(1), strict=True)]  # NaN where there is one
    return [labels[at] if number == number else None for number, at in largest]
