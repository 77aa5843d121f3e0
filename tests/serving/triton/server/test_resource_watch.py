"""A supervised server that holds too much."""

import asyncio
import os
import resource
import socket
import time
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
import tritonclient.grpc as triton

from serving.processes import process_of
from serving.triton.server import resource_watch
from serving.triton.server.resource_watch import ResourceBounds, wait_for_excess
from serving.triton.server.troubles import AGAIN_S
from serving.triton.server.workers import server_of
from tests.serving.triton.server.test_supervisor import Asker, doubles, supervised, until

FILES, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
CONNECTIONS = 60
FEW = ResourceBounds(descriptors=50 / FILES, look_s=0.5, quiet_s=2.0)


def connect(stack, server):
    """Connections on which nothing is ever read."""
    host, port = server.endpoints.grpc.split(":")
    for _ in range(CONNECTIONS):
        stack.enter_context(socket.create_connection((host, int(port))))


@pytest.mark.patient
def test_a_server_with_too_many_descriptors_is_replaced_in_a_quiet_moment_and_finishes_its_streams(settings, capsys):
    async def scenario(servers, lacks):
        await until(lambda: servers)
        address, errors, tokens = servers[0].endpoints.grpc, "", []
        busy = Asker(address)
        busy.start()
        with ExitStack() as stack:
            connect(stack, servers[0])
            while "in a quiet moment" not in errors:
                await asyncio.sleep(0.05)
                errors += capsys.readouterr().err
            await asyncio.sleep(2 * FEW.quiet_s)
            assert len(servers) == 1, "it was busy"
            busy.leaving.set()
            busy.join()
            count = triton.InferInput("count", [1], "INT32").set_data_from_numpy(np.array([30], np.int32))
            with triton.InferenceServerClient(address) as client:
                client.start_stream(lambda result, error: tokens.append(error or result.as_numpy("token")[0]))
                client.async_stream_infer("tokens", [count])
                await until(lambda: len(servers) == 2)
                client.stop_stream()
        assert busy.errors == [] and tokens[:30] == list(range(30))
        assert doubles(triton.InferenceServerClient(address))
        errors += capsys.readouterr().err
        assert "starting the server anew: it holds" in errors

    supervised(replace(settings, drain_timeout_s=5), scenario, bounds=FEW)


@pytest.mark.patient
@pytest.mark.parametrize("much", [{"memory_factor": 0.0, "memory_bytes": 1}, {"threads": -1}], ids=list)
def test_a_server_that_is_never_quiet_is_replaced_all_the_same(settings, much):
    bounds = ResourceBounds(look_s=0.2, quiet_s=30.0, patience_s=1.0, **much)

    async def scenario(servers, lacks):
        await until(lambda: len(servers) == 2)

    supervised(settings, scenario, bounds=bounds)


@pytest.mark.parametrize("waits_s", [0.0, 1.5])
def test_a_server_whose_former_one_was_replaced_just_now_waits_for_its_turn(monkeypatch, waits_s):
    """What clients hold who are there, it has again at once."""
    bounds = ResourceBounds(look_s=0.1, quiet_s=0.0, memory_factor=0.0, memory_bytes=1)
    monkeypatch.setattr(resource_watch, "server_of", lambda group: process_of(os.getpid()))
    began_s, said = time.monotonic(), []
    asyncio.run(wait_for_excess(os.getpgrp(), bounds, said.append, began_s + waits_s))
    assert time.monotonic() - began_s >= waits_s and len(said) == 1


@pytest.mark.patient
def test_a_server_that_grows_again_is_replaced_ever_more_seldom(settings):
    bounds = ResourceBounds(look_s=0.2, quiet_s=0.1, memory_factor=0.0, memory_bytes=1)

    async def scenario(servers, lacks):
        await until(lambda: len(servers) == 2)
        await asyncio.sleep(AGAIN_S)
        assert len(servers) == 2
        await until(lambda: len(servers) == 3)

    supervised(settings, scenario, bounds=bounds)


def test_a_server_within_its_bounds_stays(settings):
    async def scenario(servers, lacks):
        await until(lambda: servers)
        process = server_of(servers[0].group)
        with ExitStack() as stack:
            connect(stack, servers[0])
            await asyncio.sleep(3.0)
            assert process.lives and len(servers) == 1

    supervised(settings, scenario, bounds=ResourceBounds(look_s=0.2, quiet_s=0.3))
