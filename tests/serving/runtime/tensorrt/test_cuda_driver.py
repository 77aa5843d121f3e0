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


_RECORD = """
import json
from serving.runtime.tensorrt.cuda_driver import CudaDriver
from serving.runtime.tensorrt.device import Device
from serving.runtime.tensorrt.device_buffer import allocate_zeros
from serving.runtime.tensorrt.recorded_steps import RecordedStep, RecordedSteps
driver = CudaDriver()
device = Device(driver)
buffer = allocate_zeros(device, "float32", (4,))
steps = RecordedSteps(device)
free, total = driver.memory()
taken = []
with device.turn():
    for kind in range(20):
        for _ in range(3):
            steps.run(kind, lambda: RecordedStep(lambda: driver.zero(buffer.address, 16, device.compute), {}))
        taken.append((free - driver.memory()[0]) >> 20)
print(json.dumps([total, taken]))
"""


def test_recorded_steps_take_a_sixteenth_of_the_memory_that_the_driver_tells_of(tmp_path):
    pytest.importorskip("cuda.bindings", reason="needs cuda-bindings: `make .venv/.dev`")
    total, taken = python(_RECORD, made_libraries(tmp_path))
    assert total == 1 << 30
    assert taken == [8, 16, 24, 32, 40, 48, 56, *[64] * 13]  # MiB: eight recordings of 8 are 1/16 of a gibibyte


def test_every_method_of_the_protocol_is_there():
    from serving.runtime.tensorrt.cuda_driver import CudaDriver
    from serving.runtime.tensorrt.driver import Driver
    from tests.serving.runtime.tensorrt.fake_driver import FakeDriver

    wanted = {name for name in vars(Driver) if not name.startswith("_")}
    assert wanted <= vars(CudaDriver).keys() and wanted <= vars(FakeDriver).keys()
