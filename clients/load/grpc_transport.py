"""Triton over gRPC: whole answers by ModelInfer, streams by ModelStreamInfer, one stream a request.

Messages are serialised before the run, and answers are read no further than is needed. Calls are never cancelled: a
second request on a stream takes the first one back (clients/calls.py says why).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, cycle
from typing import Any

import grpc
from tritonclient.grpc import service_pb2

from attendant.errors import AttendantError, ServerError
from attendant.sampling_params import SamplingParams
from attendant.tensor_names import CANCEL, CANDIDATE, FINISH_REASON, INPUT_TOKENS, OUTPUT_IDS, TEXT_OUTPUT
from clients.load.in_flight import InFlightRequest
from clients.load.infer_message import Array, Place, arrays_of, request_message, texts_from, with_id
from clients.load.questions import Question
from clients.load.request_inputs import inputs_of, wanted_outputs
from clients.load.scenario import Target, Workload
from clients.load.shared_tensors import SharedTensors
from clients.served_model import ServedModel
from clients.statuses import error_from
from clients.triton_client import TritonClient

_SERVICE = "/inference.GRPCInferenceService/"
_FINAL, _EMPTY_FINAL = "triton_final_response", "triton_enable_empty_final_response"
_OPTIONS = (
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
        model: that is asked.
        message: serialised.
        decoupled: whether it is answered by a stream.
    """

    model: str
    message: bytes
    decoupled: bool


class GrpcTransport:
    """Connections to Triton's gRPC port."""

    def __init__(self, target: Target) -> None:
        """Open the connections; nothing is sent yet."""
        self.notes: dict[str, str] = {}
        self._target = target
        self._channels = [grpc.aio.insecure_channel(target.address, _OPTIONS) for _ in range(target.connections)]
        self._infers = cycle([_unary(channel) for channel in self._channels])
        self._streams = cycle([_stream(channel) for channel in self._channels])
        self._ids = count()
        self._writes: set[asyncio.Future[Any]] = set()
        self._shared = SharedTensors(self._registered) if target.shared_memory else None

    async def model(self, name: str) -> ServedModel:
        """What the server says of a model; see :meth:`Transport.model`."""
        async with TritonClient(self._target.address, self._target.timeout_s) as client:
            return await client.model(name)

    async def prepare(
        self, workload: Workload, model: ServedModel | None, questions: Sequence[Question]
    ) -> list[GrpcRequest]:
        """One message for each question; see :meth:`Transport.prepare`."""
        assert model is not None, "Triton describes its models"
        inputs = [inputs_of(workload, model, question) for question in questions]
        places = await self._places(inputs) or [{}] * len(inputs)
        return [self._prepared(workload, model, *one) for one in zip(inputs, places, strict=True)]

    async def ask(self, prepared: GrpcRequest, flight: InFlightRequest) -> None:
        """Send a request; see :meth:`Transport.ask`."""
        try:
            if prepared.decoupled:
                await self._streamed(prepared, flight)
            else:
                flight.send()
                response = await next(self._infers)(prepared.message)
                flight.hear()
                flight.outputs = partial(arrays_of, response)
        except grpc.aio.AioRpcError as error:
            raise error_from(str(error.code()), str(error.details()), prepared.model, self._target.address) from None

    async def input_tokens(
        self, workload: Workload, model: ServedModel | None, questions: Sequence[Question]
    ) -> list[int]:
        """How many tokens each question has, by asking for one token of its answer."""
        if model is None or INPUT_TOKENS not in model.outputs:
            return [0] * len(questions)
        one = SamplingParams(max_tokens=1, token_counts=True)
        async with TritonClient(self._target.address, self._target.timeout_s) as client:
            return [await _counted(client, model.name, inputs_of(workload, model, one_of, one)) for one_of in questions]

    async def close(self) -> None:
        """Close the connections, once what still runs had a while to end."""
        if self._writes:
            await asyncio.wait(self._writes, timeout=LATE_S)
        if self._shared is not None:
            await self._shared.close()
        for channel in self._channels:
            await channel.close(None)

    def _prepared(
        self, workload: Workload, model: ServedModel, inputs: Mapping[str, Array], places: Mapping[str, Place]
    ) -> GrpcRequest:
        parameters = dict(workload.parameters) | ({_EMPTY_FINAL: True} if model.decoupled else {})
        message = request_message(model.name, inputs, wanted_outputs(workload, model), parameters, places)
        return GrpcRequest(model.name, message.SerializeToString(), model.decoupled)

    async def _streamed(self, prepared: GrpcRequest, flight: InFlightRequest) -> None:
        request_id = f"load-{id(self):x}-{next(self._ids)}"
        flight.send()
        call = next(self._streams)()
        await call.write(with_id(prepared.message, request_id))
        flight.take_back = partial(self._take_back, call, prepared, request_id)
        if flight.outcome is not None:  # it was left while it was sent, and two writes at once are one too many
            flight.take_back()
        failure: AttendantError | None = None
        final = False
        while (response := await call.read()) is not _END:
            if response.error_message:
                failure = error_from("", response.error_message, prepared.model, self._target.address)
                await call.done_writing()
                continue
            answer = response.infer_response
            if answer.outputs:
                _hear(answer, flight)
            if _FINAL in answer.parameters and answer.parameters[_FINAL].bool_param and not final:
                final, flight.take_back = True, None
                await call.done_writing()
        if failure is not None:
            raise failure
        if not final:
            raise ServerError("a final response", "the stream ended without one", "look at the server's log")

    def _take_back(self, call: Any, prepared: GrpcRequest, request_id: str) -> None:
        request = service_pb2.ModelInferRequest.FromString(prepared.message)
        request.parameters[CANCEL].string_param = request_id
        write = asyncio.ensure_future(_last_write(call, request.SerializeToString()))
        self._writes.add(write)
        write.add_done_callback(self._written)

    def _written(self, write: asyncio.Future[Any]) -> None:
        self._writes.discard(write)
        if not write.cancelled():
            write.exception()  # the stream had ended by itself

    async def _places(self, inputs: Sequence[Mapping[str, Array]]) -> list[dict[str, Place]] | None:
        if self._shared is None:
            return None
        places = await self._shared.places(inputs)
        self.notes |= self._shared.notes
        return places

    async def _registered(self, region: str, key: str, size: int | None) -> None:
        verb, fields = ("Register", {"key": key, "byte_size": size}) if size is not None else ("Unregister", {})
        kind = f"SystemSharedMemory{verb}"
        call = self._channels[0].unary_unary(
            _SERVICE + kind,
            request_serializer=getattr(service_pb2, f"{kind}Request").SerializeToString,
            response_deserializer=getattr(service_pb2, f"{kind}Response").FromString,
        )
        try:
            await call(getattr(service_pb2, f"{kind}Request")(name=region, **fields))
        except grpc.aio.AioRpcError as error:
            raise error_from(str(error.code()), str(error.details()), "", self._target.address) from None


async def _counted(client: TritonClient, model: str, inputs: Mapping[str, Array]) -> int:
    counts = [int(outputs[INPUT_TOKENS].reshape(-1)[0]) async for outputs in client.stream(model, inputs)]
    return counts[-1]


async def _last_write(call: Any, message: bytes) -> None:
    await call.write(message)
    await call.done_writing()


def _hear(answer: Any, flight: InFlightRequest) -> None:
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
        flight.outputs = partial(arrays_of, answer)
    elif of_first:
        flight.text += texts_from(text)[0].decode()
        flight.finish_reason = texts_from(reason)[0].decode() if reason else ""
    if tokens or len(text) != _NO_TEXT:  # the last one may bring nothing but the reason
        flight.hear(tokens)


def _unary(channel: Any) -> Any:
    return channel.unary_unary(_SERVICE + "ModelInfer", response_deserializer=service_pb2.ModelInferResponse.FromString)


def _stream(channel: Any) -> Any:
    return channel.stream_stream(
        _SERVICE + "ModelStreamInfer", response_deserializer=service_pb2.ModelStreamInferResponse.FromString
    )
