"""What the client makes of a server's odd answers."""

import asyncio
import math
import socket
import time

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from attendant.errors import ConfigError, ServerError, UnreachableError
from attendant.tensor_names import CANCEL, HEALTH
from clients import triton_client as client_module
from clients.load.scenario import Inputs, Scenario, Target, Workload
from clients.load.server_counts import ServerCounter
from clients.triton_client import TritonClient
from tests.serving.gateway.fake_triton import FakeTriton, config_of, listening


def test_an_index_with_a_name_that_is_not_utf8_names_no_failed_model(monkeypatch):
    async def index(**_):
        return None  # which grpc.aio gives for a message that it cannot parse

    async def failed():
        async with TritonClient("127.0.0.1:1") as client:
            monkeypatch.setattr(client._client, "get_model_repository_index", index)
            return await client.failed_models()

    assert asyncio.run(failed()) == {}


def test_a_model_one_of_whose_versions_is_ready_has_not_failed(monkeypatch):
    lines = {
        "a": [("UNAVAILABLE", "unloaded"), ("READY", "")],
        "b": [("UNAVAILABLE", "no such file"), ("UNAVAILABLE", "unloaded")],
        "c": [("LOADING", "")],
        "d": [("READY", ""), ("UNAVAILABLE", "no such file")],
    }

    async def index(**_):
        answer = service_pb2.RepositoryIndexResponse()
        for name, versions in lines.items():
            for number, (state, reason) in enumerate(versions):
                answer.models.add(name=name, version=str(number), state=state, reason=reason)
        return answer

    async def failed():
        async with TritonClient("127.0.0.1:1") as client:
            monkeypatch.setattr(client._client, "get_model_repository_index", index)
            return await client.failed_models()

    assert asyncio.run(failed()) == {"b": "no such file", "c": "LOADING"}


def test_an_index_that_the_server_cannot_make_names_none_either_and_a_refusal_is_one(monkeypatch):
    async def failed(error):
        async def index(**_):
            raise error

        async with TritonClient("127.0.0.1:1") as client:
            monkeypatch.setattr(client._client, "get_model_repository_index", index)
            return await client.failed_models()

    assert asyncio.run(failed(InferenceServerException("failed to stat file /x", "StatusCode.INTERNAL"))) == {}
    with pytest.raises(UnreachableError):
        asyncio.run(failed(InferenceServerException("not allowed", "StatusCode.UNAVAILABLE")))


def test_each_of_several_addresses_is_asked_once_without_retries():
    async def ask(addresses):
        async with TritonClient(addresses, timeout_s=5.0) as client:
            with pytest.raises(UnreachableError):
                await client.models()
            return client.server

    assert asyncio.run(ask("127.0.0.1:1,127.0.0.1:2,127.0.0.1:3")) == "127.0.0.1:3"
    assert asyncio.run(ask("127.0.0.1:1")) == "127.0.0.1:1"


@pytest.mark.parametrize("at_once", [1, 2, 3, 8])
def test_requests_that_run_at_once_do_not_take_the_next_address_from_each_other(at_once):
    async def ask():
        async with (
            listening(FakeTriton(config_of("a", "predict"))) as living,
            TritonClient(f"127.0.0.1:1,127.0.0.1:2,{living}", timeout_s=20.0) as client,
        ):
            return await asyncio.gather(*(client.models() for _ in range(at_once)))

    assert asyncio.run(ask()) == [["a"]] * at_once


def test_requests_that_no_address_answers_leave_one_connection_an_address(monkeypatch):
    made, real = [], client_module.aio.InferenceServerClient
    connect = lambda address, **how: made.append(address) or real(address, **how)  # noqa: E731
    monkeypatch.setattr(client_module.aio, "InferenceServerClient", connect)

    async def ask():
        async with TritonClient("127.0.0.1:1,127.0.0.1:2") as client:
            for _ in range(5):
                with pytest.raises(UnreachableError):
                    await client.models()

    asyncio.run(ask())
    assert sorted(made) == ["127.0.0.1:1", "127.0.0.1:2"]


def test_behind_an_address_that_says_nothing_the_next_is_asked_within_a_request_s_time():
    async def ask(silent):
        async with (
            listening(FakeTriton(config_of("a", "predict"))) as living,
            TritonClient(f"{silent},{living}", timeout_s=15.0) as client,
        ):
            return await client.models()

    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        assert asyncio.run(ask(f"{host}:{port}")) == ["a"]


def test_the_error_of_a_request_names_the_server_that_it_was_sent_to():
    async def ask():
        async with TritonClient("127.0.0.1:1,127.0.0.1:2", timeout_s=20.0) as client:
            asked = asyncio.ensure_future(client.usage("a"))
            await asyncio.sleep(0)
            await client.wait_before_retry(UnreachableError("a", "b", "c"), ["127.0.0.1:1"])
            assert client.server == "127.0.0.1:2"
            with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1"):
                await asked

    asyncio.run(ask())


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan])
def test_a_time_in_which_nothing_can_be_answered_is_refused(seconds):
    with pytest.raises(ConfigError, match="timeout_s above 0"):
        TritonClient("127.0.0.1:1", timeout_s=seconds)


def test_a_server_is_asked_directly_whatever_proxy_the_environment_names(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.settimeout(1.0)
        for name in ("http_proxy", "https_proxy", "grpc_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.getsockname()[1]}")

        workload = Workload(name="a", model="a", inputs=Inputs(kind="zeros"))
        scenario = Scenario(workloads=(workload,), target=Target(metrics="127.0.0.1:1"), requests=1)

        async def ask():
            async with TritonClient("127.0.0.1:1", timeout_s=2.0) as client:
                with pytest.raises(UnreachableError):
                    await client.models()
            with pytest.raises(UnreachableError):
                await ServerCounter.start(scenario)

        asyncio.run(ask())
        with pytest.raises(TimeoutError):
            proxy.accept()


class Refusing(service_pb2_grpc.GRPCInferenceServiceServicer):
    """Answers a request's first token, waits to be asked about the rest, and refuses that question.

    Attributes:
        is_stopping: whether it refuses whatever is new, and not that question alone.
        is_whole: whether the rest of the answer comes before the refusal.
        counts: how many messages each stream had.
    """

    def __init__(self, is_stopping, is_whole, far_s=0.0):
        self.is_stopping, self.is_whole, self.far_s = is_stopping, is_whole, far_s
        self.asked, self.answered, self.counts = asyncio.Event(), asyncio.Event(), []

    async def ServerLive(self, request, context):  # noqa: N802  gRPC names it
        await asyncio.sleep(self.far_s)
        if self.is_stopping:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "Server is stopping, scheduler for model has stopped")
        return service_pb2.ServerLiveResponse(live=True)

    async def ModelStreamInfer(self, requests, context):  # noqa: N802  gRPC names it
        request = await anext(requests)
        if HEALTH in request.parameters:
            self.asked.set()
            if self.is_whole:
                await self.answered.wait()
            yield service_pb2.ModelStreamInferResponse(error_message="Server is stopping")
        elif CANCEL not in request.parameters:
            yield part(request, final=False)
            await self.asked.wait()
            await asyncio.sleep(0.0 if self.is_whole else 1.0)
            yield part(request, final=True)
            self.answered.set()
        self.counts.append(1 + len([another async for another in requests]))


class Empty(service_pb2_grpc.GRPCInferenceServiceServicer):
    """Goes on answering a stream without saying anything."""

    def __init__(self, pause_s, final):
        self.pause_s, self.final = pause_s, final

    async def ModelStreamInfer(self, requests, context):  # noqa: N802  gRPC names it
        request = await anext(requests)
        while True:
            answer = service_pb2.ModelInferResponse(model_name=request.model_name)
            answer.parameters["triton_final_response"].bool_param = self.final
            yield service_pb2.ModelStreamInferResponse(infer_response=answer)
            await asyncio.sleep(self.pause_s)


class NoMessages(grpc.GenericRpcHandler):
    """Answers bytes that are no message, whatever it is asked."""

    def service(self, details):
        async def answer(request, context):
            return b"\xff" * 9

        async def answers(requests, context):
            yield b"\xff" * 9

        if details.method.endswith("StreamInfer"):
            return grpc.stream_stream_rpc_method_handler(answers)
        return grpc.unary_unary_rpc_method_handler(answer)


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: anext(client.stream("a", {"number": np.zeros(1, np.int32)})),
        lambda client: client.infer("a", {"number": np.zeros(1, np.int32)}),
        lambda client: client.usage("a"),
        lambda client: client.model("a"),
        lambda client: client.models(),
    ],
    ids=["stream", "infer", "usage", "model", "models"],
)
def test_bytes_that_are_no_message_are_the_server_s_failure(ask):
    async def asked():
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((NoMessages(),))
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        try:
            async with TritonClient(address, timeout_s=20.0) as client:
                with pytest.raises(ServerError):
                    await ask(client)
        finally:
            await server.stop(None)

    asyncio.run(asked())


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("pause_s", [0.0, 0.02])
def test_a_stream_of_empty_responses_ends_with_its_time(pause_s, final):
    async def ask():
        async with listening(Empty(pause_s, final)) as address, TritonClient(address, timeout_s=0.5) as client:
            began_s = time.monotonic()
            with pytest.raises(ServerError, match=r"within 0\.5 s"):
                [one async for one in client.stream("a", {"number": np.zeros(1, np.int32)})]
            return time.monotonic() - began_s

    assert asyncio.run(asyncio.wait_for(ask(), 60)) >= 0.5


def part(request, final):
    answer = service_pb2.ModelInferResponse(model_name=request.model_name)
    answer.parameters["triton_final_response"].bool_param = final
    answer.outputs.add(name="number", datatype="INT32").shape.extend([1])
    answer.raw_output_contents.append(np.array([final], np.int32).tobytes())
    return service_pb2.ModelStreamInferResponse(infer_response=answer)


@pytest.mark.parametrize(("is_stopping", "is_whole"), [(True, True), (True, False), (False, True), (False, False)])
def test_a_refused_question_ends_only_an_answer_that_is_not_whole_at_a_server_that_goes_on(is_stopping, is_whole):
    async def asked():
        async with (
            listening(Refusing(is_stopping, is_whole)) as address,
            TritonClient(address, timeout_s=30.0) as client,
        ):
            return [int(one["number"][0]) async for one in client.stream("a", {}, says_health=True)]

    if is_stopping or is_whole:
        assert asyncio.run(asked()) == [0, 1]
    else:
        with pytest.raises(UnreachableError, match="died before the answer was whole"):
            asyncio.run(asked())


@pytest.mark.parametrize("is_left", [False, True])
def test_what_is_said_of_a_request_goes_in_streams_of_its_own(is_left):
    """A server that refuses one message of a stream while it writes the answer to another dies of it."""
    server = Refusing(True, False)

    async def ask():
        async with listening(server) as address, TritonClient(address, timeout_s=30.0) as client:
            stream = client.stream("a", {}, says_health=True)
            await anext(stream)
            if is_left:
                await stream.aclose()
                server.asked.set()
            else:
                assert [one async for one in stream]
            while len(server.counts) < 2:
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(ask(), 60))
    assert set(server.counts) == {1}


@pytest.mark.parametrize("far_s", [1.5, 30.0])
def test_a_draining_server_that_is_far_away_loses_no_answer(far_s):
    async def asked():
        async with (
            listening(Refusing(True, False, far_s)) as address,
            TritonClient(address, timeout_s=30.0) as client,
        ):
            return [int(one["number"][0]) async for one in client.stream("a", {}, says_health=True)]

    assert asyncio.run(asked()) == [0, 1]


def test_a_stream_asks_its_own_server_whether_that_is_stopping():
    async def asked():
        async with (
            listening(Refusing(True, False)) as stopping,
            listening(Refusing(False, False)) as other,
            TritonClient(f"{stopping},{other}", timeout_s=30.0) as client,
        ):
            parts = []
            async for one in client.stream("a", {}, says_health=True):
                parts.append(int(one["number"][0]))
                if client.server == stopping:  # another request was refused by it
                    await client.wait_before_retry(UnreachableError("a", "b", "c"), [stopping])
            return parts

    assert asyncio.run(asked()) == [0, 1]
