import numpy as np
import pytest
import torch

from attendant.errors import InputError
from serving.runtime.base import numpy_dtype
from serving.runtime.torch.buffer import TorchBuffer, torch_dtype
from tests.serving.runtime.torch_devices import DEVICES

DTYPES = ["float32", "float16", "bfloat16", "int64", "bool"]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def numbered(dtype, *shape):
    """An array of a type; of bfloat16 its bits."""
    values = torch.arange(np.prod(shape)).reshape(shape).to(torch_dtype(dtype))
    return values.view(torch.uint16).numpy() if dtype == "bfloat16" else values.numpy()


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_written_is_read_and_the_address_stays(dtype, device):
    buffer = TorchBuffer(torch.zeros(2, 3, 4, dtype=torch_dtype(dtype), device=device))
    before, array = buffer.address, numbered(dtype, 2, 3, 4)
    array.flags.writeable = False
    buffer.write(array)
    np.testing.assert_array_equal(buffer.numpy(), array)
    assert buffer.numpy().dtype == numpy_dtype(dtype)
    assert (buffer.address, buffer.nbytes) == (before, array.nbytes)


@pytest.mark.parametrize("array", [np.zeros((2, 3)), np.zeros((3, 2), np.float32), np.zeros(3, np.float32)])
def test_an_array_of_another_type_or_shape_is_refused(array, device):
    with pytest.raises(InputError, match=r"float32 \[2, 3\], as its buffer is"):
        TorchBuffer(torch.zeros(2, 3, device=device)).write(array)


def test_a_part_is_the_same_memory_in_a_shape_of_its_own(device):
    whole = TorchBuffer(torch.zeros(4, 6, dtype=torch.bfloat16, device=device))
    part = whole.part(6, (3, 2, 2))
    part.write(numbered("bfloat16", 3, 2, 2))
    np.testing.assert_array_equal(whole.numpy()[1:3], numbered("bfloat16", 2, 6))
    assert (part.address, part.nbytes) == (whole.address + 12, 24)
    assert not whole.numpy()[[0, 3]].any()


@pytest.mark.parametrize("positions", [None, 2])
def test_rows_are_exchanged_all_at_once_as_far_as_they_are_filled(positions, device):
    buffer, array = TorchBuffer(torch.zeros(3, 1, 4, 2, device=device)), numbered("float32", 3, 1, 4, 2)
    buffer.write(array)
    buffer.copy_rows((0, 2), (2, 0), positions)
    wanted = array.copy()
    wanted[[2, 0], :, :positions] = array[[0, 2], :, :positions]
    np.testing.assert_array_equal(buffer.numpy(), wanted)


def test_on_a_cpu_the_contents_are_seen_without_a_copy():
    buffer = TorchBuffer(torch.zeros(2, 2))
    seen = buffer.numpy()
    buffer.write(numbered("float32", 2, 2))
    np.testing.assert_array_equal(seen, numbered("float32", 2, 2))
