"""NVIDIA's own cuda-bindings, over a driver library that gcc has made: every call is one that they accept."""

import pytest

from tests.nvidia.libraries import made_libraries, python

_USE = """
import ctypes, json
import numpy as np
from serving.runtime.tensorrt.cuda_driver import CudaDriver
from serving.runtime.tensorrt.device import Device
from serving.runtime.tensorrt.device_buffer import allocate_zeros
driver = CudaDriver()
device = Device(driver)
buffer = allocate_zeros(device, "float32", (3, 2, 4, 2))
first = buffer.numpy().tolist()
array = np.arange(48, dtype=np.float32).reshape(3, 2, 4, 2)
buffer.write(array)
buffer.copy_rows([0, 1], [1, 2], 3)
array[[1, 2], :, :3] = array[[0, 1], :, :3]
moved = buffer.numpy()
buffer.copy_rows([0], [2])
array[2] = array[0]
with device.turn():
    recording = device.record(lambda: driver.zero(buffer.address, 0, device.compute))
    driver.replay(recording, device.compute)
    driver.forget(recording)
    driver.unpin(driver.pin(16))
print(json.dumps([max(map(np.max, first)), bool((buffer.numpy() == array).all()), moved.shape]))
"""


def test_memory_goes_there_and_back_and_rows_move_through_nvidias_bindings(tmp_path):
    pytest.importorskip("cuda.bindings", reason="needs cuda-bindings: `make .venv/.dev`")
    assert python(_USE, made_libraries(tmp_path)) == [0.0, True, [3, 2, 4, 2]]


def test_every_method_of_the_protocol_is_there():
    from serving.runtime.tensorrt.cuda_driver import CudaDriver
    from serving.runtime.tensorrt.driver import Driver
    from tests.serving.runtime.tensorrt.fake_driver import FakeDriver

    wanted = {name for name in vars(Driver) if not name.startswith("_")}
    assert wanted <= vars(CudaDriver).keys() and wanted <= vars(FakeDriver).keys()
