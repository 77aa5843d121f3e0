"""Triton over HTTP: whole answers in the binary form of its protocol, streams of text as server-sent events.

What is streamed cannot be cancelled: Triton notices that a client has left only when it writes.
Source: KServe's open inference protocol, and Triton's extensions binary_tensor_data, generate and shared memory.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import json_format
from numpy.typing import NDArray
from tritonclient.grpc import model_config_pb2
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput
from tritonclient.utils import np_to_triton_dtype

from attendant.errors import AttendantError, ConfigError, InputError, ServerError
from attendant.tensor_names import CANDIDATE, FINISH_REASON, OUTPUT_IDS, TEXT_OUTPUT
from clients.admin_key import read_admin_key
from clients.load.http_session import HttpSession, read_events, read_whole
from clients.load.in_flight import InFlightRequest
from clients.load.infer_message import Place
from clients.load.request_inputs import RequestInput
from clients.load.request_tensors import output_names, request_tensors
from clients.load.scenario import Target, Workload
from clients.load.shared_tensors import SharedTensors
from clients.served_model import ServedModel
from clients.statuses import error_from, reading

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
        """Send nothing yet.

        Raises:
            InputError: the admin key's file cannot be read.
        """
        self.notes: dict[str, str] = {}
        self._root = f"{'https' if target.security.is_on else 'http'}://{target.address}/v2"
        self._session = HttpSession(target.timeout_s, tls=target.security)
        self._admin = read_admin_key(Path(target.admin_key_file)).http_headers if target.admin_key_file else {}
        self._shared = SharedTensors(self._register) if target.shared_memory else None

    async def model(self, name: str) -> ServedModel:
        """What the server says of a model; see :meth:`Transport.model`."""
        status, found = await self._session.get(f"{self._root}/models/{name}/config")
        if status != _OK:
            raise error_from(_STATUSES.get(status, ""), str(found.get("error", "")), name, self._root)
        try:
            config = json_format.ParseDict(found, model_config_pb2.ModelConfig(), ignore_unknown_fields=True)
        except json_format.ParseError as error:
            raise ServerError("a model's configuration", str(error)[:200], "correct target.address") from error
        with reading(name, self._root):
            return ServedModel.from_config(name, config)

    async def prepare(
        self, workload: Workload, model: ServedModel | None, inputs: Sequence[RequestInput]
    ) -> list[HttpRequest]:
        """One body for each input; see :meth:`Transport.prepare`."""
        assert model is not None, "Triton describes its models"
        tensors = [request_tensors(workload, model, one) for one in inputs]
        if model.decoupled:
            _require_stream(workload, model, tensors)
            return [self._generate_request(workload, model, one) for one in tensors]
        places: Sequence[Mapping[str, Place]] | None = None
        if self._shared is not None:
            places = await self._shared.place(tensors)
            self.notes |= self._shared.notes
        pairs = zip(tensors, places or [{}] * len(inputs), strict=True)
        return [self._infer_request(workload, model, *pair) for pair in pairs]

    async def count_tokens(
        self, workload: Workload, model: ServedModel | None, inputs: Sequence[RequestInput]
    ) -> list[int]:
        """Not counted over HTTP: zeros."""
        return [0] * len(inputs)

    async def probe_tokens(self, workload: Workload, model: ServedModel | None, request_input: RequestInput) -> int:
        """Not counted over HTTP: 0."""
        return 0

    async def send(self, prepared: HttpRequest, request: InFlightRequest) -> None:
        """Send a request; see :meth:`Transport.send`."""
        request.mark_sent()
        async with self._session.post(prepared.url, prepared.body, prepared.headers) as response:
            if response.status != _OK:
                raise self._error(response.status, await read_whole(response), prepared.model)
            if prepared.decoupled:
                await _read_stream(prepared, response, request, self._root)
            else:
                content = await read_whole(response)
                request.add_response()
                header_size = response.headers.get(_JSON_BYTES)
                request.outputs = lambda: _read_arrays(content, header_size)

    async def close(self) -> None:
        """Close the connections."""
        if self._shared is not None:
            await self._shared.close()
        await self._session.close()

    def _infer_request(
        self, workload: Workload, model: ServedModel, tensors: Mapping[str, Array], places: Mapping[str, Place]
    ) -> HttpRequest:
        inputs = []
        for name, array in tensors.items():
            tensor = InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
            if name in places:
                region, offset, size = places[name]
                tensor.set_shared_memory(region, size, offset)
            else:
                tensor.set_data_from_numpy(np.ascontiguousarray(array))
            inputs.append(tensor)
        outputs = [InferRequestedOutput(name) for name in output_names(workload, model)]
        body, header_size = InferenceServerClient.generate_request_body(inputs, outputs, parameters=workload.parameters)
        headers = {} if header_size is None else {_JSON_BYTES: str(header_size)}
        return HttpRequest(model.name, f"{self._root}/models/{model.name}/infer", body, headers, decoupled=False)

    def _generate_request(self, workload: Workload, model: ServedModel, tensors: Mapping[str, Array]) -> HttpRequest:
        values: dict[str, Any] = {"parameters": workload.parameters} if workload.parameters else {}
        for name, array in tensors.items():
            row = [value.decode() if isinstance(value, bytes) else value for value in array.reshape(-1).tolist()]
            values[name] = row[0] if len(row) == 1 else row
        url = f"{self._root}/models/{model.name}/generate_stream"
        return HttpRequest(model.name, url, json.dumps(values).encode(), {}, decoupled=True)

    async def _register(self, region: str, key: str, size: int | None) -> None:
        verb, body = ("unregister", {}) if size is None else ("register", {"key": key, "offset": 0, "byte_size": size})
        url = f"{self._root}/systemsharedmemory/region/{region}/{verb}"
        status, content = await self._session.ask(url, json.dumps(body).encode(), self._admin)
        if status != _OK:
            raise self._error(status, content, "")

    def _error(self, status: int, content: bytes, model: str) -> AttendantError:
        try:
            message = str(json.loads(content)["error"])
        except (ValueError, KeyError, TypeError):
            message = content.decode(errors="replace")[:200]
        return error_from(_STATUSES.get(status, ""), message, model, self._root)


async def _read_stream(prepared: HttpRequest, response: Any, request: InFlightRequest, server: str) -> None:
    finished = False
    async for data in read_events(response):
        event = json.loads(data)
        if "error" in event:
            raise error_from("", str(event["error"]), prepared.model, server)
        if TEXT_OUTPUT not in event:
            continue
        tokens = event.get(OUTPUT_IDS, ())
        if tokens != [] or event[TEXT_OUTPUT]:
            request.add_response(len(tokens) if isinstance(tokens, list) else 1)
        if not event.get(CANDIDATE, 0):
            request.text += event[TEXT_OUTPUT]
            request.finish_reason = event.get(FINISH_REASON, "")
        finished = finished or bool(event.get(FINISH_REASON, "unknown"))
    if not finished:
        raise ServerError(
            "a last response with a finish_reason", "the stream ended without one", "see the server's log"
        )


def _require_stream(workload: Workload, model: ServedModel, tensors: Sequence[Mapping[str, Array]]) -> None:
    if workload.cancel is not None:
        raise ConfigError("a transport that can cancel requests", "http", "use grpc or openai, or leave cancel out")
    wide = [name for one in tensors for name, array in one.items() if array.ndim > 2]
    if wide:
        raise InputError(f"inputs of {model.name!r} as text or lists", f"{wide[0]!r} with more axes", "use grpc")


def _read_arrays(content: bytes, header_size: str | None) -> dict[str, Array]:
    result = InferenceServerClient.parse_response_body(content, header_length=header_size)
    return {output["name"]: result.as_numpy(output["name"]) for output in result.get_response()["outputs"]}
