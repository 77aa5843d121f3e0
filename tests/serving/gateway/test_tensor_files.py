"""NumPy's files in requests: what is read, and what is refused before anything is made of it."""

import io
import zipfile

import numpy as np
import pytest

from attendant.errors import InputError
from serving.gateway.tensor_files import read_npy, read_npz, write_npy, write_npz

MIB = 1 << 20


def saved(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.array([True, False]),
        np.zeros((0, 3), np.uint8),
        np.array(2.5, np.float16),
        np.arange(3, dtype=">i4"),
    ],
)
def test_an_array_survives_the_way(array):
    for found in (read_npy(saved(array)), read_npy(write_npy(array)), read_npz(write_npz({"a": array}), MIB)["a"]):
        assert found.dtype == array.dtype and found.shape == array.shape and np.array_equal(found, array)


def of_header(shape, descr="'<f4'"):
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"no array", "a .npy file"),
        (b"", "a .npy file"),
        (saved(np.zeros(4))[:-1], "32 bytes for"),
        (saved(np.zeros(4)) + b"x", "32 bytes for"),
        (saved(np.array([{}], object), allow_pickle=True), "numbers or truth values"),
        (saved(np.array(["a"])), "numbers or truth values"),
        (of_header("(1 << 40,)"), "a .npy file"),
        (of_header("(1099511627776,)"), "4398046511104 bytes for"),
        (of_header("(-1,)"), "bytes for"),
        (b"\x93NUMPY\x03\x00" + saved(np.zeros(2))[8:], "a .npy file"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(data, message):
    with pytest.raises(InputError, match=message):
        read_npy(data)


def test_a_file_that_unpacks_to_too_much_is_refused():
    packed = io.BytesIO()
    np.savez_compressed(packed, a=np.zeros(4 * MIB, np.uint8))
    assert len(packed.getvalue()) < MIB // 64
    with pytest.raises(InputError, match="at most 1048576 bytes"):
        read_npz(packed.getvalue(), MIB)


@pytest.mark.parametrize("names", [["a.npy"], [f"{n}.npy" for n in range(65)]])
def test_a_file_of_no_arrays_or_too_many_is_refused(names):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in names:
            archive.writestr(name, b"no array")
    with pytest.raises(InputError):
        read_npz(packed.getvalue(), MIB)
    with pytest.raises(InputError, match=r"a \.npz file"):
        read_npz(packed.getvalue()[:-30], MIB)
