"""Triton over gRPC: whole answers by ModelInfer, streams by ModelStreamInfer, one stream a request.

Messages are serialised before the run, and answers are read no further than is needed. Calls are never cancelled: a
second message on a stream cancels its request (clients/calls.py says why).
"""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, cycle
from pathlib import Path
from typing import Any

import grpc
from tritonclient.grpc import service_pb2

from attendant.errors import AttendantError, ServerError
from attendant.sampling_params import SamplingParams
from attendant.tensor_names import CANCEL, CANDIDATE, FINISH_REASON, INPUT_TOKENS, OUTPUT_IDS, TEXT_OUTPUT
from clients.admin_key import read_admin_key
from clients.load.in_flight import InFlightRequest
from clients.load.infer_message import Place, create_message, read_arrays, split_texts, with_cancel_key, with_id
from clients.load.request_inputs import RequestInput
from clients.load.request_tensors import output_names, request_tensors
from clients.load.scenario import Target, Workload
from clients.load.shared_tensors import SharedTensors
from clients.served_model import ServedModel
from clients.statuses import error_from
from clients.triton_client import TritonClient

_SERVICE = "/inference.GRPCInferenceService/"
_FINAL, _EMPTY_FINAL = "triton_final_response", "triton_enable_empty_final_response"
_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),  # or all channels to one address were one connection
)
_END: Any = grpc.aio.EOF  # type: ignore[attr-defined]
_NO_TEXT = 4  # bytes of an empty one
LATE_S = 2.0


@dataclass(slots=True)
class GrpcRequest:
    """A request as it travels; of a stream without its id.

    Attributes:
        model: its name.
        message: serialised.
        decoupled: whether it is answered by a stream.
    """

    model: str
    message: bytes
    decoupled: bool


class GrpcTransport:
    """Connections to Triton's gRPC port."""

    def __init__(self, target: Target) -> None:
        """Open the connections; nothing is sent yet.

        Raises:
            ConfigError: a file of certificates cannot be read.
            InputError: the admin key's file cannot be read.
        """
        self.notes: dict[str, str] = {}
        self._target = target
        self._admin = read_admin_key(Path(target.admin_key_file)).grpc_metadata if target.admin_key_file else ()
        credentials, options = target.security.channel_credentials(), [*_OPTIONS, *target.security.channel_options]
        open_channel = partial(grpc.aio.insecure_channel, options=options)
        if credentials is not None:
            open_channel = partial(grpc.aio.secure_channel, credentials=credentials, options=options)
        self._channels = [open_channel(target.address) for _ in range(target.connections)]
        channels: list[Any] = self._channels  # requests are bytes already: no serializer
        infer, stream = service_pb2.ModelInferResponse.FromString, service_pb2.ModelStreamInferResponse.FromString
        self._infers = cycle([one.unary_unary(f"{_SERVICE}ModelInfer", None, infer) for one in channels])
        self._streams = cycle([one.stream_stream(f"{_SERVICE}ModelStreamInfer", None, stream) for one in channels])
        self._ids = count()
        self._writes: set[asyncio.Future[Any]] = set()
        self._shared = SharedTensors(self._register) if target.shared_memory else None

    async def model(self, name: str) -> ServedModel:
        """What the server says of a model; see :meth:`Transport.model`."""
        async with self._client() as client:
            return await client.model(name)

    async def prepare(
        self, workload: Workload, model: ServedModel | None, inputs: Sequence[RequestInput]
    ) -> list[GrpcRequest]:
        """One message for each input; see :meth:`Transport.prepare`."""
        assert model is not None, "Triton describes its models"
        tensors = [request_tensors(workload, model, one) for one in inputs]
        places: Sequence[Mapping[str, Place]] | None = None
        if self._shared is not None:
            places = await self._shared.place(tensors)
            self.notes |= self._shared.notes
        parameters = dict(workload.parameters) | ({_EMPTY_FINAL: True} if model.decoupled else {})
        outputs = output_names(workload, model)
        messages = [
            create_message(model.name, one, outputs, parameters, of_one)
            for one, of_one in zip(tensors, places or [{}] * len(inputs), strict=True)
        ]
        return [GrpcRequest(model.name, message.SerializeToString(), model.decoupled) for message in messages]

    async def send(self, prepared: GrpcRequest, request: InFlightRequest) -> None:
        """Send a request; see :meth:`Transport.send`."""
        try:
            if prepared.decoupled:
                await self._stream(prepared, request)
            else:
                request.mark_sent()
                response = await next(self._infers)(prepared.message)
                request.add_response()
                request.outputs = partial(read_arrays, response)
        except grpc.aio.AioRpcError as error:
            raise error_from(str(error.code()), str(error.details()), prepared.model, self._target.address) from None

    async def count_tokens(
        self, workload: Workload, model: ServedModel | None, inputs: Sequence[RequestInput]
    ) -> list[int]:
        """How many tokens each input has, found by requesting one token of its answer."""
        return [await self.probe_tokens(workload, model, one) for one in inputs]

    async def probe_tokens(self, workload: Workload, model: ServedModel | None, request_input: RequestInput) -> int:
        """How many tokens the server counts in an input; see :meth:`Transport.probe_tokens`."""
        if model is None or INPUT_TOKENS not in model.outputs:
            return 0
        params = SamplingParams(max_tokens=1, token_counts=True)
        async with self._client() as client:
            stream = client.stream(model.name, request_tensors(workload, model, request_input, params))
            return [int(outputs[INPUT_TOKENS].reshape(-1)[0]) async for outputs in stream][-1]

    async def close(self) -> None:
        """Close the connections, once what still runs had a while to end."""
        if self._writes:
            await asyncio.wait(self._writes, timeout=LATE_S)
        if self._shared is not None:
            await self._shared.close()
        for channel in self._channels:
            await channel.close(None)

    def _client(self) -> TritonClient:
        return TritonClient(self._target.address, self._target.timeout_s, tls=self._target.security)

    async def _stream(self, prepared: GrpcRequest, request: InFlightRequest) -> None:
        request_id = f"load-{id(self):x}-{next(self._ids)}"
        key = secrets.token_urlsafe()
        request.mark_sent()
        call = next(self._streams)()
        await call.write(with_cancel_key(with_id(prepared.message, request_id), key))
        request.cancel = partial(self._cancel, call, prepared, key)
        if request.outcome is not None:  # it was aborted while it was sent, and two writes at once are one too many
            request.cancel()
        failure: AttendantError | None = None
        final = False
        while (response := await call.read()) is not _END:
            if response.error_message:
                failure = error_from("", response.error_message, prepared.model, self._target.address)
                await call.done_writing()
                continue
            answer = response.infer_response
            if answer.outputs:
                _read_response(answer, request)
            if _FINAL in answer.parameters and answer.parameters[_FINAL].bool_param and not final:
                final, request.cancel = True, None
                await call.done_writing()
        if failure is not None:
            raise failure
        if not final:
            raise ServerError("a final response", "the stream ended without one", "look at the server's log")

    def _cancel(self, call: Any, prepared: GrpcRequest, key: str) -> None:
        message = service_pb2.ModelInferRequest.FromString(prepared.message)
        message.parameters[CANCEL].string_param = key

        async def write_last() -> None:
            await call.write(message.SerializeToString())
            await call.done_writing()

        def forget(write: asyncio.Future[Any]) -> None:
            self._writes.discard(write)
            if not write.cancelled():
                write.exception()  # the stream had ended by itself

        write = asyncio.ensure_future(write_last())
        self._writes.add(write)
        write.add_done_callback(forget)

    async def _register(self, region: str, key: str, size: int | None) -> None:
        verb, fields = ("Register", {"key": key, "byte_size": size}) if size is not None else ("Unregister", {})
        kind = f"SystemSharedMemory{verb}"
        call = self._channels[0].unary_unary(
            _SERVICE + kind,
            request_serializer=getattr(service_pb2, f"{kind}Request").SerializeToString,
            response_deserializer=getattr(service_pb2, f"{kind}Response").FromString,
        )
        try:
            await call(getattr(service_pb2, f"{kind}Request")(name=region, **fields), metadata=self._admin)
        except grpc.aio.AioRpcError as error:
            raise error_from(str(error.code()), str(error.details()), "", self._target.address) from None


def _read_response(answer: Any, request: InFlightRequest) -> None:
    tokens, of_first, text, reason = 0, True, b"", b""
    for output, raw in zip(answer.outputs, answer.raw_output_contents, strict=True):
        name = output.name
        if name == OUTPUT_IDS:
            tokens = output.shape[-1]
        elif name == TEXT_OUTPUT:
            text = raw
        elif name == FINISH_REASON:
            reason = raw
        elif name == CANDIDATE:
            of_first = not any(raw)
    if not text:
        request.outputs = partial(read_arrays, answer)
    elif of_first:
        request.text += split_texts(text)[0].decode()
        request.finish_reason = split_texts(reason)[0].decode() if reason else ""
    if tokens or len(text) != _NO_TEXT:  # the last one may bring nothing but the reason
        request.add_response(tokens)
