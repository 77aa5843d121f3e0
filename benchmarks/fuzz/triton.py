"""Messages to Triton's gRPC port: ModelInferRequest with shapes, types, contents and parameters that do not fit."""

import asyncio
import time
from typing import Any

import grpc
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from benchmarks.fuzz.outcome import HANG_S, Budget, Outcome

IN_FLIGHT = 24
LARGE = 2_000_000
"""Bytes of one message, at most: a server takes larger ones, which are a matter of their own."""
SERVICE = "/inference.GRPCInferenceService"
FAILING = ("INTERNAL", "UNKNOWN", "DATA_LOSS", "DEADLINE_EXCEEDED")
DIMS = st.one_of(
    st.integers(0, 9), st.sampled_from([-1, -2, 2**31, 2**62, 2**63 - 1, -(2**63), 10**8, 28, 784, 65_536])
)
TYPES = st.sampled_from(
    ["FP32", "FP16", "INT32", "INT64", "UINT64", "BOOL", "BYTES", "UINT8", "BF16", "", "FP33", "\0"]
)
NAMES = st.sampled_from(
    [
        "pixels",
        "text_input",
        "input_ids",
        "max_tokens",
        "stream",
        "temperature",
        "beam_width",
        "n",
        "stop",
        "seed",
        "x",
        "",
    ]
)
MODELS = st.sampled_from(
    ["digits-vit", "digits-vit", "dates-transformer", "stdlib-lm", "absent", "", "../x", "a" * 5000]
)
CONTENTS = st.one_of(
    st.binary(max_size=64),
    st.integers(0, 4096).map(bytes),
    st.sampled_from(
        [bytes(4 * 64), bytes(4 * 784), b"\xff\xff\xff\x7f" + b"a", b"\x05\0\0\0hello", b"\x04\0\0\0\xff\xfe\xfd\xfc"]
    ),
    st.sampled_from([(LARGE // 2).to_bytes(4, "little") + b"a " * (LARGE // 4), b"\xc0\x7f" * 128]),
)


@st.composite
def infer_requests(draw: st.DrawFn) -> Any:
    """Nearly right requests, and wholly wrong ones."""
    message = service_pb2.ModelInferRequest(
        model_name=draw(MODELS),
        model_version=draw(st.sampled_from(["", "", "", "1", "7", "-1", "x"])),
        id=draw(st.text("ab\0é", max_size=5)),
    )
    for name in draw(st.one_of(st.just(["pixels"]), st.just(["text_input", "stream"]), st.lists(NAMES, max_size=5))):
        tensor = message.inputs.add(name=name, datatype=draw(TYPES))
        tensor.shape.extend(
            draw(st.one_of(st.sampled_from([[1, 1], [1, 1, 8, 8], [1, 3, 28, 28]]), st.lists(DIMS, max_size=9)))
        )
        if draw(st.integers(0, 3)):
            message.raw_input_contents.append(draw(CONTENTS))
        elif draw(st.booleans()):
            tensor.contents.fp32_contents.extend(draw(st.lists(st.floats(width=32), max_size=70)))
        else:
            tensor.contents.bytes_contents.extend(draw(st.lists(st.binary(max_size=30), max_size=3)))
    for name in draw(
        st.lists(
            st.sampled_from(["cancel", "explain", "rendered", "sequence_id", "priority", "timeout", "x"]),
            max_size=2,
            unique=True,
        )
    ):
        parameter = message.parameters[name]
        match draw(st.integers(0, 3)):
            case 0:
                parameter.bool_param = draw(st.booleans())
            case 1:
                parameter.int64_param = draw(st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)]))
            case 2:
                parameter.string_param = draw(st.text("a\0é", max_size=9))
            case 3:
                parameter.double_param = draw(st.floats())
    for name in draw(st.lists(st.sampled_from(["logits", "text_output", "x", ""]), max_size=2)):
        message.outputs.add(name=name)
    return message


class TritonFuzzer:
    """Sends messages as they are drawn, some at a time, half of them on streams."""

    def __init__(self, address: str, outcome: Outcome) -> None:
        self._address, self.outcome = address, outcome
        self._loop = asyncio.new_event_loop()
        self._channel: Any = None
        self._waiting: list[Any] = []

    def run(self, budget: Budget, number: int, after_batch: Any) -> Outcome:
        """Send until the budget is spent; as :meth:`benchmarks.fuzz.gateway.GatewayFuzzer.run`."""
        began = time.monotonic()

        @seed(number)
        @settings(
            max_examples=budget.inputs,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(infer_requests())
        def draw(message: Any) -> None:
            if budget.is_over:
                return
            self._waiting.append(message)
            if len(self._waiting) == IN_FLIGHT:
                self._loop.run_until_complete(self._flush())
                after_batch()

        draw()
        self._loop.run_until_complete(self._flush())
        self._loop.run_until_complete(self._channel.close())
        self._loop.close()
        self.outcome.seconds = time.monotonic() - began
        return self.outcome

    async def _flush(self) -> None:
        if self._channel is None:
            self._channel = grpc.aio.insecure_channel(self._address, options=[("grpc.max_receive_message_length", -1)])
        waiting, self._waiting = self._waiting, []
        calls = [self._send(message, number % 2 == 0) for number, message in enumerate(waiting)]
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
