"""The fuzzers draw what they say, and an input that ends badly is found, counted and kept."""

import json
import socket
import threading
import time

import numpy as np
import pytest
from hypothesis import strategies as st

from attendant.errors import InputError
from benchmarks.fuzz.gateway import GatewayFuzzer, bodies, http_inputs
from benchmarks.fuzz.outcome import Budget, Outcome
from benchmarks.fuzz.parsers import Parser, create_parsers, fuzz_parser
from benchmarks.fuzz.strategies import Raw, write_json
from benchmarks.fuzz.triton import changed_messages, create_message
from serving.gateway.app import create_app
from serving.gateway.settings import GatewaySettings


def read_badly(folder):
    data = (folder / "file").read_bytes()
    if data == b"1":
        raise KeyError("a reader that stumbles")
    if data == b"2":
        time.sleep(60)
    raise InputError("a file", "another", "correct it")


@pytest.mark.planted
def test_a_crash_and_a_hang_of_a_parser_are_found_and_their_inputs_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.fuzz.parsers.HANG_S", 0.2)
    parser = Parser("bad", "file", st.sampled_from([b"0", b"1", b"2"]), read_badly)
    outcome = fuzz_parser(parser, Budget(30, 60), tmp_path, tmp_path / "kept", 0)
    assert set(outcome.failures) == {"KeyError", "hang"}
    assert outcome.answers["InputError"] > 0
    assert (tmp_path / "kept" / "bad-KeyError-1.input").read_bytes() == b"1"
    assert json.loads((tmp_path / "kept" / "bad-hang-1.json").read_text())["seed"] == 0


def test_parsers_read_nearly_right_files_and_refuse_others(dates_artefact, tmp_path):
    for parser in create_parsers(dates_artefact):
        folder = tmp_path / parser.name
        folder.mkdir()
        outcome = fuzz_parser(parser, Budget(150, 60), folder, tmp_path / "kept", 1)
        assert outcome.count == 150, parser.name
        assert outcome.answers["read"] > 0, f"{parser.name}: no input is right"
        assert len(outcome.answers) > 1, f"{parser.name}: no input is wrong"


def test_every_route_that_takes_a_body_is_asked():
    routes = create_app(GatewaySettings(tritons=("127.0.0.1:1",))).openapi()["paths"]
    assert {path for path, methods in routes.items() if "post" in methods} == set(bodies())


class BadGateway:
    """Answers every connection with the same bytes."""

    def __init__(self, answer):
        self._answer, self._listening = answer, socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listening.getsockname())
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                connection.recv(1 << 20)
                connection.sendall(self._answer)

    def close(self):
        self._listening.close()


@pytest.mark.planted
@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (b"HTTP/1.1 500 Bad\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", "500"),
        (b"HTTP/1.1 400 Bad\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", "an error without a record"),
        (b"", "connection: ServerDisconnectedError"),
    ],
)
def test_a_gateway_that_fails_is_found(answer, failure, tmp_path):
    server = BadGateway(answer)
    try:
        outcome = GatewayFuzzer(server.address, Outcome("gateway", tmp_path, 0)).run(Budget(3, 30), 0, lambda: None)
    finally:
        server.close()
    assert outcome.failures[failure] > 0
    assert any(path.suffix == ".input" for path in tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore::hypothesis.errors.NonInteractiveExampleWarning")
def test_requests_are_drawn_for_every_route_and_messages_right_and_wrong():
    right = create_message("digits-vit", {"pixels": np.zeros((1, 1, 8, 8), np.float32)})
    seen, messages = set(), set()
    for _ in range(100):
        seen.add(http_inputs().example().path)
        messages.add(changed_messages([right]).example().SerializeToString(deterministic=True))
    assert {"/v1/completions", "/v1/classify"} <= seen
    assert right.SerializeToString(deterministic=True) in messages and len(messages) > 4


def test_json_that_python_would_not_write_is_written_as_it_stands():
    assert write_json({"a": Raw("1e999"), "b": [Raw("NaN"), "\ud800"]}) == b'{"a": 1e999, "b": [NaN, "\\ud800"]}'


def test_memory_that_grows_is_said():
    outcome = Outcome("a", folder=None, seed=0, rss_mb=[100.0, 110.0, 120.0, 400.0])
    assert outcome.growth_mb == 290.0
