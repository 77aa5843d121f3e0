"""What the client makes of a server's odd answers."""

import asyncio
import math
import socket

import pytest
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from attendant.errors import ConfigError, UnreachableError
from clients.load.scenario import Inputs, Scenario, Target, Workload
from clients.load.server_counts import ServerCounter
from clients.triton_client import TritonClient


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
