"""Servers that speak Triton's protocol and answer what is not ours: what the gateway makes of them."""

import asyncio
import json
import time
from contextlib import AsyncExitStack, asynccontextmanager

import grpc
import numpy as np
import pytest
from tritonclient.grpc import model_config_pb2, service_pb2, service_pb2_grpc
from tritonclient.utils import serialize_byte_tensor

from attendant.errors import DeadlineError, ServerError
from attendant.sampling_params import SamplingParams
from clients.classify import Classifier
from clients.generate import Generator
from clients.served_model import ServedModel
from serving.gateway.upstream.pool import Pool
from serving.gateway.upstream.server import Upstream
from tests.end_to_end.asking import until

pytestmark = pytest.mark.patient

IMAGES, TEXTS = "digits-vit", "stdlib-lm"
PIXELS = np.zeros((1, 1, 8, 8), np.float32)


def text_of(value):
    return serialize_byte_tensor(np.array([[value]], object)).item()


def add(answer, name, datatype, shape, content):
    answer.outputs.add(name=name, datatype=datatype).shape.extend(shape)
    answer.raw_output_contents.append(content)


class Stranger(service_pb2_grpc.GRPCInferenceServiceServicer):
    """A server of a classifier and a language model, both of which answer as they are told.

    Attributes:
        parameters: of both models' configurations.
        logits: type, shape and bytes of the classifier's answer; none if empty.
        text: what the language model answers again and again, ten times a second.
    """

    def __init__(self, parameters=None, dtype=model_config_pb2.TYPE_FP32, logits=(), text=b"a"):
        self.parameters, self.dtype, self.logits, self.text = parameters or {}, dtype, logits, text

    async def ModelStatistics(self, request, context):  # noqa: N802  gRPC names it
        answer = service_pb2.ModelStatisticsResponse()
        for name in (IMAGES, TEXTS):
            answer.model_stats.add(name=name)
        return answer

    async def ModelConfig(self, request, context):  # noqa: N802  gRPC names it
        config = model_config_pb2.ModelConfig(name=request.name)
        if request.name == IMAGES:
            config.max_batch_size = 8
            config.input.add(name="pixels", data_type=self.dtype).dims.extend(PIXELS.shape[1:])
            config.output.add(name="logits", data_type=model_config_pb2.TYPE_FP32).dims.append(10)
            config.parameters["task"].string_value = "classify"
        else:
            config.model_transaction_policy.decoupled = True
            config.parameters["task"].string_value = "generate"
        for name, value in self.parameters.items():
            config.parameters[name].string_value = value
        return service_pb2.ModelConfigResponse(config=config)

    async def ModelInfer(self, request, context):  # noqa: N802  gRPC names it
        answer = service_pb2.ModelInferResponse(model_name=request.model_name, id=request.id)
        if self.logits:
            add(answer, "logits", *self.logits)
        return answer

    async def ModelStreamInfer(self, requests, context):  # noqa: N802  gRPC names it
        async for request in requests:
            while True:
                answer = service_pb2.ModelInferResponse(model_name=request.model_name, id=request.id)
                add(answer, "text_output", "BYTES", (1, 1), text_of(self.text))
                if self.text != b"none":
                    add(answer, "finish_reason", "BYTES", (1, 1), text_of(b""))
                    add(answer, "output_ids", "INT32", (1, 1), bytes(4))
                yield service_pb2.ModelStreamInferResponse(infer_response=answer)
                await asyncio.sleep(0.1)


@asynccontextmanager
async def serving(stranger):
    server = grpc.aio.server()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(stranger, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}", server
    finally:
        await server.stop(None)


def logits_of(shape=(1, 10)):
    return "FP32", shape, np.zeros(shape, np.float32).tobytes()


ODD_LOGITS = {
    "none": (),
    "of another length": ("FP32", (1, 10), bytes(7)),
    "of an unknown type": ("FOO", (1, 10), bytes(40)),
    "texts": ("BYTES", (1, 1), text_of(b"x")),
    "of no image": logits_of((0, 10)),
    "of less than none": ("FP32", (-1, -10), bytes(40)),
}


@pytest.mark.planted
@pytest.mark.parametrize("logits", ODD_LOGITS.values(), ids=ODD_LOGITS)
def test_an_answer_that_is_none_is_the_servers_failure_and_counts_as_one(logits):
    async def ask():
        async with serving(Stranger(logits=logits)) as (address, _):
            pool = Pool((address,), timeout_s=10.0, probe_s=60.0)
            (upstream,) = pool.upstreams
            try:
                for _ in range(3):
                    with pytest.raises(ServerError):
                        await pool.once(IMAGES, lambda one, model: Classifier(one.client, model).logits(PIXELS))
                assert upstream.is_ejected(IMAGES)
            finally:
                await upstream.close()

    asyncio.run(ask())


@pytest.mark.planted
@pytest.mark.parametrize("text", [b"none", b"\xff"], ids=["without its parts", "not UTF-8"])
def test_so_is_a_response_of_a_stream(text):
    async def ask():
        async with serving(Stranger(text=text)) as (address, _):
            upstream = Upstream(address, 10.0)
            try:
                generator = Generator(upstream.client, await upstream.model(TEXTS))
                with pytest.raises(ServerError, match="as Attendant lays models out"):
                    await generator.answer("a")
            finally:
                await upstream.close()

    asyncio.run(ask())


ODD_CONFIGURATIONS = {
    "example": {"parameters": {"example": '"x"'}},
    "inputs of the example": {"parameters": {"example": '{"inputs": [1]}'}},
    "labels": {"parameters": {"labels": "5"}},
    "task": {"parameters": {"task": '["generate"]'}},
    "nested": {"parameters": {"example": "[" * 200_000}},
    "type": {"dtype": model_config_pb2.TYPE_INVALID},
    "answers": {"text": b"\xff"},
}


@pytest.mark.planted
@pytest.mark.parametrize("odd", ODD_CONFIGURATIONS.values(), ids=ODD_CONFIGURATIONS)
def test_no_server_ends_the_canaries_of_another(odd):
    async def watch():
        async with AsyncExitStack() as stack:
            strange, _ = await stack.enter_async_context(serving(Stranger(**odd)))
            address, server = await stack.enter_async_context(serving(Stranger(logits=logits_of())))
            pool = await stack.enter_async_context(Pool((strange, address), timeout_s=2.0, probe_s=0.05))
            healthy = pool.upstreams[1]
            assert await until(lambda: IMAGES in healthy.verdicts)
            assert healthy.verdicts[IMAGES].right
            await server.stop(None)
            assert await until(lambda: not healthy.verdicts[IMAGES].right)

    asyncio.run(watch())


@pytest.mark.planted
def test_a_model_that_cannot_be_read_hides_no_other_of_its_server():
    async def probe():
        async with serving(Stranger(dtype=model_config_pb2.TYPE_INVALID)) as (address, _):
            upstream = Upstream(address, 2.0)
            try:
                await upstream.probe()
                assert list(upstream.models) == [TEXTS]
            finally:
                await upstream.close()

    asyncio.run(probe())


@pytest.mark.planted
def test_a_server_that_goes_on_after_a_requests_time_is_left():
    async def ask():
        async with serving(Stranger()) as (address, _):
            upstream = Upstream(address, 10.0)
            try:
                generator = Generator(upstream.client, await upstream.model(TEXTS))
                began_s = time.monotonic()
                with pytest.raises(DeadlineError):
                    await asyncio.wait_for(generator.answer("a", SamplingParams(deadline_ms=500)), 60)
                assert time.monotonic() - began_s > 0.5
            finally:
                await upstream.close()

    asyncio.run(ask())


def test_a_parameter_of_ours_that_means_something_else_is_a_strangers():
    config = model_config_pb2.ModelConfig(name="other")
    for name, value in (("labels", "5"), ("example", '"x"'), ("task", "sort"), ("colour", json.dumps({"a": 1}))):
        config.parameters[name].string_value = value
    assert ServedModel.from_config("other", config).parameters == {"task": "sort", "colour": {"a": 1}}
