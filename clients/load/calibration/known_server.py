"""A server whose times and faults are known, to test load generators with: Triton's protocol over gRPC, one process.

    python -m clients.load.calibration.known_server '{"a": {"service": "exponential", "mean_s": 0.01}}'

It prints its port. Each model has a queue of its own: one request at a time, in the order of arrival, for a time
that is drawn. What the protocol itself takes does not add up: the queue is kept in numbers, and an answer leaves at its
time.
"""

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc import model_config_pb2, service_pb2, service_pb2_grpc
from tritonclient.utils import serialize_byte_tensor

from attendant.tensor_names import CANCEL, FINISH_REASON, OUTPUT_IDS, TEXT_INPUT, TEXT_OUTPUT
from clients.load.calibration.known_model import KnownModel, draw_services
from clients.load.timer import Timer

TIMES = "times"


class ModelQueue:
    """The requests of one model, served one after the other."""

    def __init__(self, model: KnownModel) -> None:
        """Begin without a request; in a running event loop."""
        self.model = model
        self._services = draw_services(model)
        self._free_s, self._number = 0.0, 0
        self._timer = Timer()
        self._ends: deque[tuple[float, asyncio.Future[None]]] = deque()

    async def serve(self) -> tuple[float, float]:
        """Wait until a request that arrives now has been served; when its service began and ended."""
        arrival_s = time.monotonic()
        self._number += 1
        if self._number == self.model.stall_at:
            self._free_s = max(self._free_s, arrival_s) + self.model.stall_s
        begins_s = max(self._free_s, arrival_s)
        self._free_s = begins_s + next(self._services)
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ends_s = self._free_s
        self._ends.append((ends_s, end))
        if len(self._ends) == 1:
            self._timer.at(ends_s, self._complete_due)
        await end
        return begins_s, ends_s

    def _complete_due(self) -> None:
        while self._ends and self._ends[0][0] <= time.monotonic():
            end = self._ends.popleft()[1]
            if not end.done():
                end.set_result(None)
        if self._ends:
            self._timer.at(self._ends[0][0], self._complete_due)


class KnownServer(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]  # it has no types
    """Answers as its models say."""

    def __init__(self, models: dict[str, KnownModel]) -> None:
        """Begin a queue for each model; in a running event loop."""
        self._queues = {name: ModelQueue(model) for name, model in models.items()}

    async def ModelConfig(self, request: Any, context: Any) -> Any:  # noqa: N802  the protocol's names
        """What kind of model it is."""
        if request.name not in self._queues:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"unknown model: {request.name!r}")
        config = model_config_pb2.ModelConfig(name=request.name, max_batch_size=8)
        if self._queues[request.name].model.tokens:
            config.model_transaction_policy.decoupled = True
            config.parameters["task"].string_value = "generate"
            config.input.add(name=TEXT_INPUT, data_type=model_config_pb2.TYPE_STRING, dims=[1])
            config.output.add(name=TEXT_OUTPUT, data_type=model_config_pb2.TYPE_STRING, dims=[1])
        else:
            config.input.add(name="input", data_type=model_config_pb2.TYPE_FP32, dims=[1])
            config.output.add(name=TIMES, data_type=model_config_pb2.TYPE_FP64, dims=[2])
        return service_pb2.ModelConfigResponse(config=config)

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        """One answer: when the service began and ended, by the monotonic clock."""
        times = np.array(await self._queues[request.model_name].serve())
        response = service_pb2.ModelInferResponse(model_name=request.model_name)
        response.outputs.add(name=TIMES, datatype="FP64", shape=[1, 2])
        response.raw_output_contents.append(times.tobytes())
        return response

    async def ModelStreamInfer(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:  # noqa: N802
        """Tokens at known distances, once the queue has served the request; it ends when it is cancelled."""

        async def read_cancelled() -> bool:
            return any([CANCEL in request.parameters async for request in requests])

        request = await anext(requests)
        model = self._queues[request.model_name].model
        cancelled = asyncio.create_task(read_cancelled())
        await self._queues[request.model_name].serve()
        sent = model.tokens - (1 if model.fault == "few" else 0)
        for number in range(sent):
            if number and model.step_s:
                await asyncio.sleep(model.step_s)
            if cancelled.done() and cancelled.result():
                break
            is_last = number == sent - 1
            text = f"{number}{'!' if model.fault == 'text' and is_last else ''} "
            response = service_pb2.ModelInferResponse(model_name=request.model_name)
            for name, value in ((TEXT_OUTPUT, text), (FINISH_REASON, "length" if is_last else "")):
                response.outputs.add(name=name, datatype="BYTES", shape=[1, 1])
                response.raw_output_contents.append(serialize_byte_tensor(np.array([value.encode()], object)).item())
            response.outputs.add(name=OUTPUT_IDS, datatype="INT32", shape=[1, 1])
            response.raw_output_contents.append(np.array([number], np.int32).tobytes())
            response.parameters["triton_final_response"].bool_param = False
            yield service_pb2.ModelStreamInferResponse(infer_response=response)
        if model.fault != "unfinished":
            final = service_pb2.ModelInferResponse(model_name=request.model_name)
            final.parameters["triton_final_response"].bool_param = True
            yield service_pb2.ModelStreamInferResponse(infer_response=final)
            await cancelled


async def serve(models: dict[str, KnownModel]) -> None:
    """Serve until standard input ends, on a free port of this machine, which is printed."""
    server = grpc.aio.server()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(KnownServer(models), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(None)


if __name__ == "__main__":
    asyncio.run(serve({name: KnownModel(**values) for name, values in json.loads(sys.argv[1]).items()}))
