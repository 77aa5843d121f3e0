"""A server that speaks Triton's gRPC and answers as it is told, and a gateway before it, in one event loop."""

from contextlib import AsyncExitStack, asynccontextmanager

import grpc
import httpx
import numpy as np
from tritonclient.grpc import model_config_pb2 as pb
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import serialize_byte_tensor

from serving.gateway.app import create_app
from serving.gateway.settings import GatewaySettings

GREY = {"mode": "L", "resample": "bilinear", "scale": 1 / 255, "mean": [0.0], "deviation": [1.0]}


def floats(values):
    array = np.asarray(values, np.float32)
    return "FP32", array.shape, array.tobytes()


def integers(values):
    array = np.asarray(values, np.int32)
    return "INT32", array.shape, array.tobytes()


def texts(*values):
    array = np.array([[value.encode() for value in values]], object)
    return "BYTES", array.shape, serialize_byte_tensor(array).item()


def raw(values):
    array = np.array(values, object)
    return "BYTES", array.shape, serialize_byte_tensor(array).item()


def delta(text="a", token=1, finish_reason="stop", **more):
    return {
        "text_output": texts(text),
        "finish_reason": texts(finish_reason),
        "output_ids": integers([[token]]),
        **more,
    }


def config_of(name, task, inputs=(), outputs=(), max_batch=0, **parameters):
    """A configuration; inputs and outputs are pairs of a name and dimensions."""
    config = pb.ModelConfig(name=name, max_batch_size=max_batch)
    config.model_transaction_policy.decoupled = task in ("generate", "translate", "caption")
    for tensor, dims in inputs:
        config.input.add(name=tensor, data_type=pb.TYPE_FP32).dims.extend(dims)
    for tensor, dims in outputs:
        config.output.add(name=tensor, data_type=pb.TYPE_FP32).dims.extend(dims)
    for key, value in {"task": task, **parameters}.items():
        config.parameters[key].string_value = value
    return config


class FakeTriton(service_pb2_grpc.GRPCInferenceServiceServicer):
    """Attributes.

    configs: of its models.
    answer: to every single request, name → tensor as :func:`floats` makes it.
    deltas: of every stream, each name → tensor.
    requests: of streams, as they came.
    cuts_names: whether it reads a model's name up to a NUL alone, as Triton does.
    """

    def __init__(self, *configs, answer=None, deltas=(), cuts_names=False):
        self.cuts_names = cuts_names
        self.configs, self.deltas, self.requests = {one.name: one for one in configs}, deltas, []
        self.answer = answer or {}

    async def ModelStatistics(self, request, context):  # noqa: N802  gRPC names it
        answer = service_pb2.ModelStatisticsResponse()
        for name in self.configs:
            answer.model_stats.add(name=name)
        return answer

    async def ModelConfig(self, request, context):  # noqa: N802  gRPC names it
        name = request.name.partition("\0")[0] if self.cuts_names else request.name
        if name not in self.configs:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"unknown model {request.name}")
        return service_pb2.ModelConfigResponse(config=self.configs[name])

    async def ModelInfer(self, request, context):  # noqa: N802  gRPC names it
        return _response(request, await self.infer(request))

    async def infer(self, request):
        """The answer to a single request."""
        return self.answer

    async def ModelStreamInfer(self, requests, context):  # noqa: N802  gRPC names it
        async for request in requests:
            self.requests.append(request)
            for number, outputs in enumerate(self.deltas or [{}], start=1):
                answer = _response(request, outputs)
                answer.parameters["triton_final_response"].bool_param = number >= len(self.deltas)
                yield service_pb2.ModelStreamInferResponse(infer_response=answer)


def _response(request, outputs):
    answer = service_pb2.ModelInferResponse(model_name=request.model_name, id=request.id)
    for name, (datatype, shape, content) in outputs.items():
        answer.outputs.add(name=name, datatype=datatype).shape.extend(shape)
        answer.raw_output_contents.append(content)
    return answer


@asynccontextmanager
async def listening(servicer):
    """The address of a server that speaks Triton's gRPC."""
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(servicer, server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield address
    finally:
        await server.stop(None)


@asynccontextmanager
async def gateway_of(*servers, **choices):
    """A client of a gateway before some servers."""
    async with AsyncExitStack() as stack:
        addresses = [await stack.enter_async_context(listening(one)) for one in servers]
        app = create_app(GatewaySettings(tritons=tuple(addresses), **{"probe_s": 3600.0, "timeout_s": 10.0, **choices}))
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080", timeout=60) as client:
                yield client
