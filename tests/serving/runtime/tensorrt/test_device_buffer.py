"""Buffers of the device beside arrays, over the driver that checks addresses, sizes and order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attendant.errors import InputError
from serving.runtime.base import copy_array_rows
from serving.runtime.tensorrt.device import Device
from serving.runtime.tensorrt.device_buffer import allocate_zeros
from tests.serving.runtime.tensorrt.fake_driver import FakeDriver


@pytest.fixture
def device():
    return Device(FakeDriver())


def test_a_new_buffer_is_zero_and_holds_what_is_written(device):
    buffer = allocate_zeros(device, "int64", (2, 3))
    assert buffer.nbytes == 48 and not buffer.numpy().any()
    array = np.arange(6).reshape(2, 3)
    address = buffer.address
    buffer.write(array)
    array[:] = -1  # the caller's own again
    assert buffer.numpy().tolist() == [[0, 1, 2], [3, 4, 5]] and buffer.address == address


def test_what_was_read_is_the_readers_own(device):
    buffer = allocate_zeros(device, "float32", (4,))
    first = buffer.numpy()
    buffer.write(np.ones(4, dtype=np.float32))
    second = buffer.numpy()
    assert first.tolist() == [0, 0, 0, 0] and second.tolist() == [1, 1, 1, 1]


def test_a_part_is_the_same_memory_and_outlives_the_whole(device):
    whole = allocate_zeros(device, "float32", (4, 2))
    part = whole.part(2, (2, 2))
    part.write(np.full((2, 2), 7, dtype=np.float32))
    assert part.address == whole.address + 8
    assert whole.numpy().tolist() == [[0, 0], [7, 7], [7, 7], [0, 0]]
    del whole
    assert part.part(1, (1,)).numpy().tolist() == [7]
    with pytest.raises(AssertionError, match="lies inside"):
        part.part(3, (2,))


def test_bfloat16_is_kept_as_its_bits(device):
    buffer = allocate_zeros(device, "bfloat16", (2,))
    buffer.write(np.array([0x3F80, 0xBF80], dtype=np.uint16))
    assert buffer.numpy().dtype == np.uint16 and buffer.numpy().tolist() == [0x3F80, 0xBF80]


@pytest.mark.parametrize("array", [np.zeros(3, dtype=np.float32), np.zeros(2)], ids=["shape", "type"])
def test_another_type_or_shape_is_not_written(device, array):
    with pytest.raises(InputError, match=r"an array of type float32 and shape \(2,\)"):
        allocate_zeros(device, "float32", (2,)).write(array)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_rows_are_copied_all_at_once_as_those_of_an_array(data):
    rows, heads, length, size = (data.draw(st.integers(1, 4)) for _ in range(4))
    row = st.integers(0, rows - 1)
    targets = data.draw(st.lists(row, unique=True, min_size=1))
    sources = data.draw(st.lists(row, min_size=len(targets), max_size=len(targets)))
    positions = data.draw(st.none() | st.integers(1, length))
    array = np.arange(rows * heads * length * size, dtype=np.float16).reshape(rows, heads, length, size)
    buffer = allocate_zeros(Device(FakeDriver()), "float16", array.shape)
    buffer.write(array)
    buffer.copy_rows(sources, targets, positions)
    copy_array_rows(array, sources, targets, positions)
    np.testing.assert_array_equal(buffer.numpy(), array)


def test_memory_is_given_back_when_nobody_looks_at_it(device):
    for _ in range(20):
        allocate_zeros(device, "float32", (8,))
    with device.turn():
        pass
    assert device.driver.living() == [] and device.driver.counts["allocate"] == 20
