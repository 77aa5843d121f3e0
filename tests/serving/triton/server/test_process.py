"""The real tritonserver, on loopback."""

from __future__ import annotations

import os
import queue
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton

from attendant.errors import ConfigError, ServerError
from serving.triton.server import command, workspace
from serving.triton.server.endpoints import Endpoints
from serving.triton.server.group import living_members
from serving.triton.server.process import DRAIN_MARGIN_S, TritonServer
from serving.triton.server.settings import ServerSettings
from serving.triton.server.shared_memory import DIRECTORY, new_server_name
from tests.serving.triton.server import sample_models

READY_S = 240  # of patience with a busy machine, as what follows
PATIENCE_S = 60.0


def _doubles(endpoints: Endpoints, timeout_s: float = PATIENCE_S) -> None:
    x = triton.InferInput("x", [3], "FP32").set_data_from_numpy(np.array([1, 2, 3], np.float32))
    with triton.InferenceServerClient(endpoints.grpc) as client:
        y = client.infer("double", [x], client_timeout=timeout_s).as_numpy("y")
    if y.tolist() != [2, 4, 6]:
        raise ServerError("[2, 4, 6]", str(y), "look at the model")


def _processes(server: TritonServer, named: str) -> list[int]:
    assert server.group is not None
    members = living_members(server.group)
    return [pid for pid in members if Path(f"/proc/{pid}/comm").read_text().startswith(named[:15])]


def _regions(server: TritonServer) -> list[Path]:
    return list(DIRECTORY.glob(f"{server.regions}*"))


def _assert_nothing_left(server: TritonServer) -> None:
    assert server.group is not None
    assert living_members(server.group) == []
    assert _regions(server) == []
    assert server.returncode is not None


@contextmanager
def _running(settings: ServerSettings) -> Iterator[TritonServer]:
    with TritonServer(settings) as server:
        server.wait_until_ready(_doubles, READY_S)
        assert len(_processes(server, "triton_python_backend_stub")) == 2
        assert len(_regions(server)) == 2
        yield server


@contextmanager
def _stream(endpoints: Endpoints, count: int) -> Iterator[queue.Queue[Any]]:
    """Hold a bidirectional stream open, with ``count`` tokens on their way into the queue."""
    answers: queue.Queue[Any] = queue.Queue()
    client = triton.InferenceServerClient(endpoints.grpc)
    client.start_stream(lambda result, error: answers.put(error if result is None else result))
    wanted = triton.InferInput("count", [1], "INT32").set_data_from_numpy(np.array([count], np.int32))
    client.async_stream_infer("tokens", [wanted])
    answers.get(timeout=PATIENCE_S)
    try:
        yield answers
    finally:
        client.stop_stream(cancel_requests=True)
        client.close()


def _timed_stop(server: TritonServer) -> float:
    started = time.monotonic()
    server.stop()
    return time.monotonic() - started


def test_a_server_answers_out_of_reach_of_ctrl_c_and_stops_without_a_trace(settings: ServerSettings):
    with _running(settings) as server:
        assert server.group not in (None, os.getpgrp())
        assert server.poll() is None
        workspace = server.log.parent if server.log else None
    _assert_nothing_left(server)
    assert server.returncode == 0
    assert workspace is not None
    assert not workspace.exists()
    server.stop()


def test_tokens_on_their_way_arrive_while_the_server_drains(settings: ServerSettings):
    with _running(replace(settings, drain_timeout_s=60)) as server:
        stopping = Thread(target=server.stop)
        with _stream(server.endpoints, count=10) as answers:
            stopping.start()
            tokens = [answers.get(timeout=PATIENCE_S) for _ in range(9)]
        stopping.join()
    assert [token.as_numpy("token")[0] for token in tokens] == list(range(1, 10))


@pytest.mark.slow
def test_an_open_stream_delays_the_stop_by_the_drain_timeout_and_no_more(settings: ServerSettings):
    with _running(settings) as server, _stream(server.endpoints, count=10_000):
        assert _timed_stop(server) < settings.drain_timeout_s + DRAIN_MARGIN_S + PATIENCE_S
        _assert_nothing_left(server)


def test_a_client_that_answers_no_ping_is_let_go(settings: ServerSettings, monkeypatch: pytest.MonkeyPatch):
    brief = [flag.replace("=10000", "=1000") for flag in command.KEEPALIVE]
    monkeypatch.setattr(command, "KEEPALIVE", brief)
    with _running(settings) as server:
        host, port = server.endpoints.grpc.split(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as vanished:
            settings_and_ack = b"\0\0\0\4\0\0\0\0\0" + b"\0\0\0\4\1\0\0\0\0"
            vanished.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings_and_ack)
            while vanished.recv(4096):  # what the server says, until it ends the connection
                pass
            assert server.poll() is None


def test_a_server_whose_stub_was_killed_stops_without_a_trace(settings: ServerSettings):
    with _running(settings) as server:
        os.kill(_processes(server, "triton_python_backend_stub")[0], signal.SIGKILL)
        assert _timed_stop(server) < settings.drain_timeout_s + DRAIN_MARGIN_S + PATIENCE_S
    _assert_nothing_left(server)


def test_a_server_that_dies_is_noticed_and_its_log_kept(settings: ServerSettings):
    with _running(settings) as server:
        os.kill(_processes(server, "tritonserver")[0], signal.SIGKILL)
        assert server.wait() == -signal.SIGKILL
        _assert_nothing_left(server)
    assert server.log is not None
    assert "Started GRPCInferenceService" in server.log.read_text()


def test_a_server_whose_guard_is_killed_is_noticed_and_ended(settings: ServerSettings):
    with _running(settings) as server:
        assert server.group is not None
        os.kill(server.group, signal.SIGKILL)
        assert server.wait() == -signal.SIGKILL
        _assert_nothing_left(server)


@pytest.mark.slow
def test_a_model_that_cannot_start_ends_the_wait_with_its_own_words(settings: ServerSettings):
    sample_models.write(settings.repository, "broken", sample_models.DOUBLE_CONFIG, sample_models.BROKEN)
    with TritonServer(settings) as server:
        with pytest.raises(ServerError, match=r"the file decoder\.onnx is not here") as caught:
            server.wait_until_ready(_doubles, READY_S)
        _assert_nothing_left(server)
    assert server.log is not None
    assert server.log.exists()
    assert str(server.log) in str(caught.value)


@pytest.mark.slow
def test_a_check_that_fails_is_told_as_it_is(settings: ServerSettings):
    def refuse(endpoints: Endpoints) -> None:
        raise ServerError("a good answer", f"a bad one from {endpoints.http}", "look")

    with TritonServer(settings) as server, pytest.raises(ServerError, match="a bad one from 127"):
        server.wait_until_ready(refuse, READY_S)
    _assert_nothing_left(server)


def test_a_model_that_never_loads_is_told_in_time_and_can_be_stopped(settings: ServerSettings):
    sample_models.write(settings.repository, "slow", sample_models.DOUBLE_CONFIG, sample_models.SLOW)
    with TritonServer(settings) as server:
        with pytest.raises(ServerError, match=r"ready within 1 s"):
            server.wait_until_ready(_doubles, timeout_s=1)
        ends = time.monotonic() + PATIENCE_S
        while len(_processes(server, "triton_python_backend_stub")) < 3 and time.monotonic() < ends:
            time.sleep(0.05)
        assert len(_processes(server, "triton_python_backend_stub")) == 3
        assert _timed_stop(server) < settings.drain_timeout_s + DRAIN_MARGIN_S + PATIENCE_S
    _assert_nothing_left(server)


def test_a_server_that_has_hardly_begun_can_be_stopped(settings: ServerSettings):
    with TritonServer(settings) as server:
        pass
    _assert_nothing_left(server)


def test_what_killed_servers_left_is_removed_by_the_next_unless_another_runs(
    settings: ServerSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(workspace, "PLACE", tmp_path)
    (environment := tmp_path / "python_env_a1B2c3").mkdir()
    dead = tmp_path / f"{new_server_name(2**22 + 1)}_log"  # no process has such a number
    dead.mkdir()
    for another_runs in (True, False):
        monkeypatch.setattr(workspace, "_is_server", lambda process, runs=another_runs: runs)
        with TritonServer(settings):
            assert (environment.exists(), dead.exists()) == (another_runs, False)


def test_a_taken_port_is_told_before_anything_is_started(settings: ServerSettings):
    server = TritonServer(settings)
    told = pytest.raises(ConfigError, match=f"port {settings.grpc_port}.*--grpc-port")
    with socket.create_server(("127.0.0.1", settings.grpc_port)), told:
        server.start()
    assert (server.group, server.log, _regions(server)) == (None, None, [])


@pytest.mark.slow
def test_another_server_on_the_port_is_not_taken_for_ours(settings: ServerSettings):
    late = TritonServer(settings)
    with TritonServer(settings) as first:
        late.start()  # both found the port free; only one can have it
        try:
            with pytest.raises(ServerError):
                for server in (first, late):
                    server.wait_until_ready(_doubles, READY_S)
        finally:
            late.stop()
    _assert_nothing_left(first)
    _assert_nothing_left(late)


def test_a_server_is_started_once(settings: ServerSettings):
    with TritonServer(settings) as server, pytest.raises(ServerError, match="make a new one"):
        server.start()


def test_a_folder_that_nobody_may_look_at_is_not_said_to_be_removed(settings, tmp_path):
    server = TritonServer(settings)
    server._workspace = tmp_path / ("a" * 300)  # an error of the system, as of one in a folder that may not be searched
    assert not server.remove_log()
