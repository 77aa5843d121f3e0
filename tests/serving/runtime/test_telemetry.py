"""Libraries that would tell their makers who uses them, and for what, are kept from it, whoever imports us first."""

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

RUN = """
import sys
import {first}
import onnxruntime
onnxruntime.InferenceSession(sys.argv[1])
from attendant.errors import MachineError
from serving.runtime.openvino.runner import _openvino
try:
    _openvino().Core()
except MachineError:
    print("it is not installed")
assert not sys.modules.get("openvino_telemetry")
"""


@pytest.mark.parametrize(
    "first", ["serving.runtime.ort.runner", "serving.runtime.openvino.runner", "commands.attendant"]
)
def test_nothing_is_kept_at_home_of_what_is_run(first, tiny_translator, tmp_path):
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}  # noqa: TID251
    home = {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", RUN.format(first=first), tiny_translator / "encoder.onnx"]
    subprocess.run(command, env={**kept, **home}, cwd=tmp_path, check=True, timeout=120)
    assert not list(tmp_path.iterdir())
