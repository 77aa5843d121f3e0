"""What a stub does that stood still, before a real tritonserver and beside regions of other layouts."""

import os
import signal
import struct
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton

from serving.triton.backends.given_up import (
    CONTROL,
    OWNER_BYTES,
    QUEUE_AT,
    REGION,
    STATE_AT,
    STUB,
    find_messages,
    stay_if_it_ends,
)
from serving.triton.server.group import living_members
from tests.end_to_end.asking import PATIENCE_S
from tests.end_to_end.servers import started
from tests.serving.triton.server import sample_models

SLEEPING = """
import sys
import time

import triton_python_backend_utils as pb_utils

from serving.triton.backends.given_up import ends_if_given_up


class TritonPythonModel:
    @ends_if_given_up
    def execute(self, requests):
        sys.stderr.write("begun\\n")
        sys.stderr.flush()
        time.sleep(1.0)
        x = [pb_utils.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", one)]) for one in x]
"""
STOPPED_S = 5.0  # Triton waits for up to two once it was told that the stub lives
CONTROL_PLACE, QUEUE_PLACE = 64, 512


@pytest.fixture
def region(tmp_path):
    """Writes a region with a queue of so many places and such a head and tail, and gives a stub's arguments."""

    def write(size=1000, head=3, tail=3, place=QUEUE_PLACE):
        data = bytearray(1024)
        struct.pack_into("q", data, CONTROL_PLACE + OWNER_BYTES + QUEUE_AT, place)
        struct.pack_into("Qqii", data, QUEUE_PLACE + OWNER_BYTES + STATE_AT, size, 0, head, tail)
        (tmp_path / "region").write_bytes(data)
        arguments = [f"a/{STUB}", *["0"] * 9]
        arguments[REGION], arguments[CONTROL] = "region", str(CONTROL_PLACE)
        return arguments

    return write


def test_what_waits_behind_a_request_shows_that_it_was_given_up(region, tmp_path):
    messages = find_messages(region(), tmp_path)
    assert messages.is_empty
    region(head=4)
    assert not messages.is_empty


def test_it_says_that_it_lives_where_triton_looks(region, tmp_path):
    find_messages(region(), tmp_path).say_alive()
    data = (tmp_path / "region").read_bytes()
    assert [place for place in range(QUEUE_PLACE) if data[place] == 1] == [CONTROL_PLACE + OWNER_BYTES]


@pytest.mark.parametrize(
    "wrong",
    [{"size": 0}, {"size": 1 << 40}, {"head": 5}, {"head": -1, "tail": -1}, {"place": 1 << 40}, {"place": -9000}],
)
def test_another_layout_is_left_alone(region, tmp_path, wrong, capsys):
    assert find_messages(region(**wrong), tmp_path) is None
    assert "not seen" in capsys.readouterr().err


def test_what_is_no_stub_has_no_messages(region, tmp_path, capsys):
    arguments = region()
    assert find_messages(["python", *arguments[1:]], tmp_path) is None
    assert find_messages(arguments[:3], tmp_path) is None
    assert find_messages(arguments, tmp_path / "elsewhere") is None
    stay_if_it_ends()  # which nothing does here


def _is_stub_of(model, pid):
    program, *words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return program.endswith(STUB) and f"/{model}/" in words[0]


@pytest.mark.planted
def test_a_stub_ends_that_has_a_request_which_triton_gave_up_and_no_server_ends_of_it(tmp_path):
    config = sample_models.DOUBLE_CONFIG
    sample_models.write(tmp_path, "sleeping", config, SLEEPING)
    sample_models.write(tmp_path, "double", config, sample_models.DOUBLE)

    def ask(model, failures):
        x = triton.InferInput("x", [1], "FP32").set_data_from_numpy(np.ones(1, np.float32))
        try:
            with triton.InferenceServerClient(server.endpoints.grpc) as client:
                client.infer(model, [x], client_timeout=PATIENCE_S)
        except triton.InferenceServerException as error:
            failures.append(str(error))

    def until(condition):
        ends = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < ends
            time.sleep(0.05)

    with started(tmp_path) as server:
        (stub,) = [pid for pid in living_members(server.group) if _is_stub_of("sleeping", pid)]
        failures = []
        asking = threading.Thread(target=ask, args=("sleeping", failures))
        asking.start()
        until(lambda: "begun" in server.log.read_text())
        os.kill(stub, signal.SIGSTOP)
        time.sleep(STOPPED_S)
        os.kill(stub, signal.SIGCONT)
        until(lambda: stub not in living_members(server.group))
        asking.join()
        assert failures and "not healthy" in failures[0]
        log = server.log.read_text()
        assert "has given up a request" in log and "not seen" not in log
        others = []
        ask("double", others)
        assert not others and server.poll() is None
