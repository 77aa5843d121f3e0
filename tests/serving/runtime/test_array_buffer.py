"""Buffers over arrays: parts are the same memory, and rows are copied all at once. ONNX Runtime's keep to it too."""

import numpy as np
import pytest

from attendant.errors import InputError
from serving.runtime.base import ArrayBuffer
from serving.runtime.ort.runner import OrtBuffer

SHAPE = (4, 2, 5, 3)


@pytest.fixture(params=[ArrayBuffer, OrtBuffer.over], ids=["array", "onnxruntime"])
def buffer(request):
    return request.param(np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE))


def test_a_part_is_the_same_memory_in_a_shape_of_its_own(buffer):
    part = buffer.part(30, (2, 15))
    assert np.array_equal(part.numpy(), np.arange(30, 60, dtype=np.float32).reshape(2, 15))
    assert (part.address, part.nbytes) == (buffer.address + 30 * 4, 30 * 4)
    part.write(np.full((2, 15), 7, dtype=np.float32))
    assert (buffer.numpy()[1] == 7).all() and (buffer.numpy() == 7).sum() == 30 + 1, "and 7, which was there"
    buffer.numpy()[1] = 8
    assert (part.numpy() == 8).all()


def test_a_part_of_a_part_counts_from_the_part(buffer):
    assert np.array_equal(buffer.part(30, (3, 30)).part(30, (2,)).numpy(), [60, 61])


def test_a_part_and_a_view_of_it_outlive_what_they_are_a_part_of():
    part = OrtBuffer.over(np.full(1000, 3, dtype=np.float32)).part(10, (500,))
    view = OrtBuffer.over(np.full(1000, 3, dtype=np.float32)).part(10, (500,)).numpy()
    others = [np.full(1000, 9, dtype=np.float32) for _ in range(50)]  # they take memory that was given back
    assert (part.numpy() == 3).all() and (view == 3).all(), others[0].dtype


def test_rows_are_exchanged_as_if_at_once(buffer):
    before = buffer.numpy().copy()
    buffer.copy_rows([1, 0, 0], [0, 1, 3])
    assert np.array_equal(buffer.numpy(), before[[1, 0, 2, 0]])


def test_only_so_many_positions_are_copied(buffer):
    before = buffer.numpy().copy()
    buffer.copy_rows((2,), (0,), 3)
    assert np.array_equal(buffer.numpy()[0, :, :3], before[2, :, :3])
    assert np.array_equal(buffer.numpy()[0, :, 3:], before[0, :, 3:])
    assert np.array_equal(buffer.numpy()[1:], before[1:])


def test_contents_are_replaced_where_they_lie(buffer):
    address = buffer.address
    buffer.write(np.zeros(SHAPE, dtype=np.float32))
    assert not buffer.numpy().any() and buffer.address == address == buffer.numpy().ctypes.data


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_an_array_of_another_type_is_refused_and_nothing_is_written(buffer, dtype):
    before = buffer.numpy().copy()
    with pytest.raises((TypeError, InputError), match="float32"):
        buffer.write(np.ones(SHAPE, dtype=dtype))
    assert np.array_equal(buffer.numpy(), before)


def test_an_array_of_another_shape_is_refused(buffer):
    with pytest.raises((ValueError, InputError), match=r"\(4, ?2, ?5, ?3\)"):
        buffer.write(np.zeros((4, 2, 3, 5), dtype=np.float32))
