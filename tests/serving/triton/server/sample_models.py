"""Models for the real Python backend, as small as they can be."""

from __future__ import annotations

from pathlib import Path

DOUBLE_CONFIG = """
backend: "python"
max_batch_size: 0
input [ { name: "x" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ -1 ] } ]
instance_group [ { count: 1 kind: KIND_CPU } ]
"""

DOUBLE = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("y", 2 * x)])
"""

TOKENS_CONFIG = """
backend: "python"
max_batch_size: 0
model_transaction_policy { decoupled: true }
input [ { name: "count" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "token" data_type: TYPE_INT32 dims: [ 1 ] } ]
instance_group [ { count: 1 kind: KIND_CPU } ]
"""

TOKENS = """
import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            count = int(pb_utils.get_input_tensor_by_name(request, "count").as_numpy()[0])
            threading.Thread(target=self.emit, args=(request.get_response_sender(), count), daemon=True).start()

    def emit(self, sender, count):
        for number in range(count):
            token = pb_utils.Tensor("token", np.array([number], np.int32))
            sender.send(pb_utils.InferenceResponse([token]))
            time.sleep(0.1)
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""

BROKEN = """
class TritonPythonModel:
    def initialize(self, args):
        raise ValueError("the file decoder.onnx is not here")

    def execute(self, requests):
        return []
"""

SLOW = """
import time


class TritonPythonModel:
    def initialize(self, args):
        time.sleep(600)

    def execute(self, requests):
        return []
"""


def write(root: Path, name: str, config: str, code: str) -> None:
    version = root / name / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(f'name: "{name}"{config}')
    (version / "model.py").write_text(code)
