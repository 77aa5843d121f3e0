"""Messages to Triton's gRPC port: ModelInferRequest with shapes, types, contents and parameters that do not fit."""

import asyncio
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2
from tritonclient.utils import np_to_triton_dtype, serialize_byte_tensor

from attendant.sampling_params import SamplingParams
from attendant.sampling_tensors import tensors_of
from benchmarks.chaos.inputs import create_inputs
from benchmarks.fuzz.drawing import draw_inputs
from benchmarks.fuzz.outcome import HANG_S, Budget, Outcome
from benchmarks.fuzz.strategies import TEXTS, damaged

IN_FLIGHT = 24
DECOUPLED = ("dates-transformer", "stdlib-lm")
EXTREME = [0.0, -1.0, 1e30, -1e30, float("nan"), float("inf"), 2.0**31, 2.0**63, 1e-30]
SERVICE = "/inference.GRPCInferenceService"
FAILING = ("INTERNAL", "UNKNOWN", "DATA_LOSS", "DEADLINE_EXCEEDED")
DIMS = st.one_of(
    st.integers(0, 9), st.sampled_from([-1, -2, 2**31, 2**62, 2**63 - 1, -(2**63), 10**8, 28, 784, 65_536])
)
TYPES = st.sampled_from(
    ["FP32", "FP16", "INT32", "INT64", "UINT64", "BOOL", "BYTES", "UINT8", "BF16", "", "FP33", "\0"]
)
MODELS = st.sampled_from(["digits-vit", "dates-transformer", "stdlib-lm", "absent", "", "../x", "a" * 5000])
PARAMETERS = st.sampled_from(["cancel", "explain", "rendered", "sequence_id", "priority", "timeout", "x"])
NUMBERS = {"FP32": "<f4", "FP64": "<f8", "INT32": "<i4", "INT64": "<i8", "UINT64": "<u8", "BOOL": "?"}


def create_message(model: str, tensors: Mapping[str, Any]) -> Any:
    """A request that is right."""
    message = service_pb2.ModelInferRequest(model_name=model)
    for name, array in tensors.items():
        kind = np_to_triton_dtype(array.dtype)
        message.inputs.add(name=name, datatype=kind, shape=array.shape)
        raw = serialize_byte_tensor(array).item() if kind == "BYTES" else np.ascontiguousarray(array).tobytes()
        message.raw_input_contents.append(raw)
    return message


@st.composite
def _contents(draw: st.DrawFn, kind: str, right: bytes) -> bytes:
    if kind == "BYTES" and draw(st.booleans()):
        text = draw(TEXTS).encode("utf-8", draw(st.sampled_from(["replace", "surrogatepass"])))
        return struct.pack("<I", len(text)) + text
    if kind in NUMBERS and draw(st.booleans()):
        item = np.dtype(NUMBERS[kind])
        values = draw(st.lists(st.one_of(st.integers(-3, 40), st.sampled_from(EXTREME)), min_size=1, max_size=1))
        with np.errstate(all="ignore"):
            value = np.array(values, dtype=np.float64).astype(item)
        return bytes(np.repeat(value, max(1, len(right) // item.itemsize)).tobytes())
    return draw(st.one_of(damaged(right), st.binary(max_size=64), st.integers(0, 4096).map(bytes)))


@st.composite
def changed_messages(draw: st.DrawFn, bases: Sequence[Any]) -> Any:
    """A right request with some of its fields exchanged."""
    message = service_pb2.ModelInferRequest()
    message.CopyFrom(draw(st.sampled_from(bases)))
    for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2, 3]))):
        number = draw(st.integers(0, max(0, len(message.inputs) - 1)))
        if not message.inputs or len(message.raw_input_contents) <= number:
            break
        tensor = message.inputs[number]
        match draw(st.integers(0, 9)):
            case 0:
                message.model_name = draw(MODELS)
            case 1:
                message.model_version = draw(st.sampled_from(["1", "7", "-1", "x"]))
            case 2:
                del tensor.shape[:]
                tensor.shape.extend(draw(st.lists(DIMS, max_size=9)))
            case 3:
                tensor.datatype = draw(TYPES)
            case 4:
                tensor.name = draw(
                    st.one_of(st.sampled_from([one.name for one in message.inputs]), TEXTS.filter(_fits))
                )
            case 5:
                del message.inputs[number]
                del message.raw_input_contents[number]
            case 6:
                _set_parameter(draw, message)
            case 7:
                message.outputs.add(name=draw(st.sampled_from(["logits", "text_output", "x", ""])))
            case _:
                message.raw_input_contents[number] = draw(
                    _contents(tensor.datatype, message.raw_input_contents[number])
                )
    return message


def _set_parameter(draw: st.DrawFn, message: Any) -> None:
    parameter = message.parameters[draw(PARAMETERS)]
    match draw(st.integers(0, 3)):
        case 0:
            parameter.bool_param = draw(st.booleans())
        case 1:
            parameter.int64_param = draw(st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)]))
        case 2:
            parameter.string_param = draw(st.text("a\0é", max_size=9))
        case 3:
            parameter.double_param = draw(st.floats())


def _fits(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def right_messages(artefacts: Mapping[str, Path]) -> list[Any]:
    """Requests that are right, of every model, with every sampling parameter."""
    options = SamplingParams(
        max_tokens=2, temperature=0.5, top_k=3, top_p=0.9, seed=1, stop=("a",), stop_token_ids=(5,), logprobs=True
    )
    inputs = create_inputs(artefacts)
    texts = [
        (one.model, {**one.tensors, **tensors_of(options)})
        for kind in ("generate", "translate")
        for one in inputs[kind][:2]
    ]
    beams = SamplingParams(max_tokens=2, beam_width=2, n=2, length_penalty=0.5)
    texts.append((inputs["beams"][0].model, {**inputs["beams"][0].tensors, **tensors_of(beams)}))
    images = [(one.model, one.tensors) for one in inputs["classify"][:2]]
    return [create_message(model, tensors) for model, tensors in (*texts, *images)]


class TritonFuzzer:
    """Sends messages as they are drawn, some at a time."""

    def __init__(self, address: str, outcome: Outcome, bases: Sequence[Any]) -> None:
        self._address, self.outcome, self._bases = address, outcome, bases
        self._loop = asyncio.new_event_loop()
        self._channel: Any = None
        self._waiting: list[Any] = []

    def run(self, budget: Budget, number: int, after_batch: Any) -> Outcome:
        """Send until the budget is spent; as :meth:`benchmarks.fuzz.gateway.GatewayFuzzer.run`."""
        began = time.monotonic()

        def draw(message: Any) -> None:
            self._waiting.append(message)
            if len(self._waiting) == IN_FLIGHT:
                self._loop.run_until_complete(self._flush())
                after_batch()

        draw_inputs(changed_messages(self._bases), budget, number, draw)
        self._loop.run_until_complete(self._flush())
        self._loop.run_until_complete(self._channel.close())
        self._loop.close()
        self.outcome.seconds = time.monotonic() - began
        return self.outcome

    async def _flush(self) -> None:
        if self._channel is None:
            self._channel = grpc.aio.insecure_channel(self._address, options=[("grpc.max_receive_message_length", -1)])
        waiting, self._waiting = self._waiting, []
        # A decoupled model answers on streams alone.
        calls = [self._send(one, one.model_name in DECOUPLED or not number % 4) for number, one in enumerate(waiting)]
        await asyncio.gather(*calls)

    async def _send(self, message: Any, streamed: bool) -> None:
        began, answer, failure = time.monotonic(), "OK", ""
        data = message.SerializeToString()
        try:
            answer = await (self._stream(data) if streamed else self._infer(data))
        except grpc.aio.AioRpcError as error:
            answer = f"{error.code().name}: {error.details()}"
        name = answer.partition(":")[0]
        if name in FAILING:
            failure = "hang" if name == "DEADLINE_EXCEEDED" else name
        elif name == "UNAVAILABLE" and "ocket closed" in answer:
            failure = "the connection broke"
        self.outcome.add(name, data, time.monotonic() - began, failure)
        if failure:
            self.outcome.examples[failure] = answer

    async def _infer(self, data: bytes) -> str:
        call = self._channel.unary_unary(f"{SERVICE}/ModelInfer", None, service_pb2.ModelInferResponse.FromString)
        await call(data, timeout=2 * HANG_S)
        return "OK"

    async def _stream(self, data: bytes) -> str:
        call = self._channel.stream_stream(
            f"{SERVICE}/ModelStreamInfer", None, service_pb2.ModelStreamInferResponse.FromString
        )

        async def requests() -> Any:
            yield data

        answer = "OK"
        async for response in call(requests(), timeout=2 * HANG_S):
            if response.error_message:
                answer = f"error: {response.error_message}"
        return answer
