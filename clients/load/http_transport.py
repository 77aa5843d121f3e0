"""Triton over HTTP: whole answers in the binary form of its protocol, streams of text as server-sent events.

What is streamed cannot be taken back: Triton notices that a client has left only when it writes.
Source: KServe's open inference protocol, and Triton's extensions binary_tensor_data, generate and shared memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf import json_format
from numpy.typing import NDArray
from tritonclient.grpc import model_config_pb2
from tritonclient.utils import np_to_triton_dtype

from attendant.errors import ConfigError, InputError, ServerError
from attendant.tensor_names import CANDIDATE, FINISH_REASON, OUTPUT_IDS, TEXT_OUTPUT
from clients.load.http_session import HttpSession, events
from clients.load.in_flight import InFlightRequest
from clients.load.infer_message import Place, array_from, tensor_bytes
from clients.load.questions import Question
from clients.load.request_inputs import inputs_of, wanted_outputs
from clients.load.scenario import Target, Workload
from clients.load.shared_tensors import SharedTensors
from clients.served_model import ServedModel
from clients.statuses import error_from

_JSON_BYTES = "Inference-Header-Content-Length"
_STATUSES = {400: "INVALID_ARG", 404: "NOT_FOUND", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}
_OK = 200
Array = NDArray[Any]


@dataclass(slots=True)
class HttpRequest:
    """A request as it travels."""

    model: str
    url: str
    body: bytes
    headers: dict[str, str]
    decoupled: bool


class HttpTransport:
    """Connections to Triton's HTTP port."""

    def __init__(self, target: Target) -> None:
        """Take the address; nothing is sent yet."""
        self.notes: dict[str, str] = {}
        self._root = f"http://{target.address}/v2"
        self._session = HttpSession()
        self._shared = SharedTensors(self._registered) if target.shared_memory else None

    async def model(self, name: str) -> ServedModel:
        """What the server says of a model; see :meth:`Transport.model`."""
        status, found = await self._session.get(f"{self._root}/models/{name}/config")
        if status != _OK:
            raise error_from(_STATUSES.get(status, ""), str(found.get("error", "")), name, self._root)
        config = json_format.ParseDict(found, model_config_pb2.ModelConfig(), ignore_unknown_fields=True)
        return ServedModel.from_config(name, config)

    async def prepare(
        self, workload: Workload, model: ServedModel | None, questions: Sequence[Question]
    ) -> list[HttpRequest]:
        """One body for each question; see :meth:`Transport.prepare`."""
        assert model is not None, "Triton describes its models"
        inputs = [inputs_of(workload, model, question) for question in questions]
        if model.decoupled:
            _require_stream(workload, model, inputs)
            return [self._generating(workload, model, one) for one in inputs]
        places = await self._places(inputs) or [{}] * len(inputs)
        return [self._inferring(workload, model, *one) for one in zip(inputs, places, strict=True)]

    async def input_tokens(
        self, workload: Workload, model: ServedModel | None, questions: Sequence[Question]
    ) -> list[int]:
        """Not asked for over HTTP: zeros."""
        return [0] * len(questions)

    async def ask(self, prepared: HttpRequest, flight: InFlightRequest) -> None:
        """Send a request; see :meth:`Transport.ask`."""
        flight.send()
        async with self._session.post(prepared.url, prepared.body, prepared.headers) as response:
            if response.status != _OK:
                content = await response.read()
                raise error_from(_STATUSES.get(response.status, ""), _message(content), prepared.model, self._root)
            if prepared.decoupled:
                await _stream(prepared, response, flight, self._root)
            else:
                content = await response.read()
                flight.hear()
                size = int(response.headers.get(_JSON_BYTES, len(content)))
                flight.outputs = lambda: _arrays(content, size)

    async def close(self) -> None:
        """Close the connections."""
        if self._shared is not None:
            await self._shared.close()
        await self._session.close()

    def _inferring(
        self, workload: Workload, model: ServedModel, inputs: Mapping[str, Array], places: Mapping[str, Place]
    ) -> HttpRequest:
        parts = {name: tensor_bytes(array) for name, array in inputs.items() if name not in places}
        told: dict[str, Any] = {
            "inputs": [_told(name, array, places.get(name), parts) for name, array in inputs.items()],
            "parameters": dict(workload.parameters),
        }
        if wanted := wanted_outputs(workload, model):
            told["outputs"] = [{"name": name, "parameters": {"binary_data": True}} for name in wanted]
        else:
            told["parameters"]["binary_data_output"] = True
        head = json.dumps(told).encode()
        url, body = f"{self._root}/models/{model.name}/infer", head + b"".join(parts.values())
        return HttpRequest(model.name, url, body, {_JSON_BYTES: str(len(head))}, decoupled=False)

    def _generating(self, workload: Workload, model: ServedModel, inputs: Mapping[str, Array]) -> HttpRequest:
        values = {name: _plain(array) for name, array in inputs.items()}
        body = json.dumps(values | ({"parameters": workload.parameters} if workload.parameters else {})).encode()
        return HttpRequest(model.name, f"{self._root}/models/{model.name}/generate_stream", body, {}, decoupled=True)

    async def _places(self, inputs: Sequence[Mapping[str, Array]]) -> list[dict[str, Place]] | None:
        if self._shared is None:
            return None
        places = await self._shared.places(inputs)
        self.notes |= self._shared.notes
        return places

    async def _registered(self, region: str, key: str, size: int | None) -> None:
        verb, told = ("unregister", {}) if size is None else ("register", {"key": key, "offset": 0, "byte_size": size})
        url = f"{self._root}/systemsharedmemory/region/{region}/{verb}"
        async with self._session.post(url, json.dumps(told).encode()) as response:
            if response.status != _OK:
                raise error_from(_STATUSES.get(response.status, ""), _message(await response.read()), "", self._root)


async def _stream(prepared: HttpRequest, response: Any, flight: InFlightRequest, server: str) -> None:
    finished = False
    async for data in events(response):
        told = json.loads(data)
        if "error" in told:
            raise error_from("", str(told["error"]), prepared.model, server)
        if TEXT_OUTPUT not in told:
            continue
        tokens = told.get(OUTPUT_IDS, ())
        if tokens != [] or told[TEXT_OUTPUT]:
            flight.hear(len(tokens) if isinstance(tokens, list) else 1)
        if not told.get(CANDIDATE, 0):
            flight.text += told[TEXT_OUTPUT]
            flight.finish_reason = told.get(FINISH_REASON, "")
        finished = finished or bool(told.get(FINISH_REASON, "unknown"))
    if not finished:
        raise ServerError(
            "a last response with a finish_reason", "the stream ended without one", "see the server's log"
        )


def _require_stream(workload: Workload, model: ServedModel, inputs: Sequence[Mapping[str, Array]]) -> None:
    if workload.cancel is not None:
        raise ConfigError("a transport that can take requests back", "http", "use grpc or openai, or leave cancel out")
    wide = [name for one in inputs for name, array in one.items() if array.ndim > 2]
    if wide:
        raise InputError(f"questions of {model.name!r} as text or lists", f"{wide[0]!r} with more axes", "use grpc")


def _plain(array: Array) -> Any:
    values = [value.decode() if isinstance(value, bytes) else value for value in array.reshape(-1).tolist()]
    return values[0] if len(values) == 1 else values


def _told(name: str, array: Array, place: Place | None, parts: Mapping[str, bytes]) -> dict[str, Any]:
    if place is None:
        parameters: dict[str, Any] = {"binary_data_size": len(parts[name])}
    else:
        region, offset, size = place
        parameters = {"shared_memory_region": region, "shared_memory_byte_size": size}
        parameters |= {"shared_memory_offset": offset} if offset else {}
    datatype = np_to_triton_dtype(array.dtype)
    return {"name": name, "shape": list(array.shape), "datatype": datatype, "parameters": parameters}


def _arrays(content: bytes, size: int) -> dict[str, Array]:
    arrays, at = {}, size
    for output in json.loads(content[:size])["outputs"]:
        length = output.get("parameters", {}).get("binary_data_size")
        if length is None:
            arrays[output["name"]] = np.array(output["data"]).reshape(output["shape"])
            continue
        arrays[output["name"]] = array_from(output["datatype"], output["shape"], content[at : at + length])
        at += length
    return arrays


def _message(content: bytes) -> str:
    try:
        return str(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        return content.decode(errors="replace")[:200]
