"""What a stub does that stood still, before a real tritonserver."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton

from serving.triton.server.group import living_members
from serving.triton.stub_messages import STUB
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
STOPPED_S = 3.5  # Triton waits for up to two once it was told that the stub lives


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
