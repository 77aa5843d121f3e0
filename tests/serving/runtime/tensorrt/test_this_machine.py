"""What is asked of the driver's and TensorRT's own libraries, over libraries that gcc has made."""

import pytest

from attendant.errors import MachineError
from serving.runtime.tensorrt.this_machine import TENSORRT_LIBRARIES, this_platform
from tests.nvidia.libraries import made_libraries, python

_ASK = """
import json
from dataclasses import asdict
from serving.runtime.tensorrt.this_machine import this_platform
print(json.dumps(asdict(this_platform())))
"""


@pytest.mark.parametrize("version", ["11.4.0", "10.16.1"])
def test_the_machine_says_which_gpu_driver_and_tensorrt_it_has(version, tmp_path):
    found = python(_ASK, made_libraries(tmp_path, version))
    assert found | {"driver": ""} == {
        "tensorrt": version,
        "cuda": "13.3",
        "driver": "",
        "gpu": "NVIDIA Made Of Paper",
        "capability": "9.0",
    }


def test_so_it_says_how_much_memory_its_gpu_has(tmp_path):
    ask = "from serving.runtime.tensorrt.this_machine import gpu_memory_bytes\nprint(gpu_memory_bytes())"
    assert python(ask, made_libraries(tmp_path)) == 1 << 30


def test_a_machine_without_a_driver_is_told_so():
    with pytest.raises(MachineError, match=r"NVIDIA's driver \(libcuda.so.1\)"):
        this_platform()


def test_a_machine_without_tensorrt_is_told_so(tmp_path):
    libraries = made_libraries(tmp_path)
    for name in TENSORRT_LIBRARIES:
        (libraries / name).unlink(missing_ok=True)
    refused = _ASK.replace("print(", "try:\n    print(") + (
        "except Exception as error:\n    print(json.dumps([type(error).__name__, str(error)]))"
    )
    kind, message = python(refused, libraries)
    assert kind == "MachineError" and "TensorRT (libnvinfer.so.11 or libnvinfer.so.10)" in message
