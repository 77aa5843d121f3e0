"""NumPy's files in requests: what is read, and what is refused before anything is made of it."""

import io
import tracemalloc
import zipfile

import ml_dtypes
import numpy as np
import pytest

from attendant.errors import InputError
from attendant.tensor_files import npz_headers, read_npy, read_npy_file, read_npz, read_npz_file, write_npy, write_npz

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
    return of_text(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}")


def of_text(header):
    header = header.ljust(117) + "\n"
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
        (of_header("(1073741824,)"), "4294967296 bytes for"),
        (of_header("(-1,)"), "at most 32 axes of 0 to 2147483647"),
        (b"\x93NUMPY\x03\x00" + saved(np.zeros(2))[8:], "a .npy file"),
        (of_header("(-1, -1)") + bytes(4), "axes of 0 to"),
        (of_header("(" + "1, " * 33 + ")") + bytes(4), "at most 32 axes"),
        (of_header("(True,)") + bytes(4), "axes of 0 to"),
        (of_header("(0, 9223372036854775808)"), "axes of 0 to"),
        (of_header("(0, 2147483647, 2147483647, 2147483647)"), "a .npy file"),
        (of_header("(1,)", "('<f4',)") + bytes(4), "a .npy file"),
        (of_text("-" * 4000 + "1"), "a .npy file"),
        (of_text("(" * 5000 + ")" * 5000), "a .npy file"),
        (of_text("'''abc"), "a .npy file"),
        (of_text("if 1:\n  a\n b"), "a .npy file"),
        (of_text("{[]: 1}"), "a .npy file"),
        (of_text("{1: 2, 'a': 3}"), "a .npy file"),
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


def packed(method, array=None):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("a.npy", saved(np.ones((2, 3)) if array is None else array))
    return file.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_damaged_file_is_refused_or_read_whatever_of_it_is_damaged(method):
    dice, whole = np.random.default_rng(5), packed(method)
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(dice.integers(1, 4)):
            damaged[dice.integers(len(damaged))] = dice.integers(256)
        try:
            read_npz(bytes(damaged), MIB)
        except InputError:
            continue


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_file_that_is_packed_as_numpy_packs_none_is_refused(method):
    with pytest.raises(InputError, match=f"stored or deflated in a .npz file; found packed by method {method}"):
        read_npz(packed(method), MIB)


def test_a_name_that_is_no_text_or_comes_twice_is_refused():
    whole = packed(zipfile.ZIP_STORED)
    at = whole.rfind(b"PK\x01\x02")
    with pytest.raises(InputError, match=r"a \.npz file"):
        read_npz(whole[: at + 8] + b"\x00\x08" + whole[at + 10 : at + 46] + b"\xff" + whole[at + 47 :], MIB)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.npy", saved(np.ones(1)))
        archive.writestr("a", saved(np.ones(2)))
    with pytest.raises(InputError, match="'a' twice"):
        read_npz(file.getvalue(), MIB)


def test_headers_are_read_without_unpacking_and_what_unpacks_to_more_than_its_header_says_is_cut():
    whole = packed(zipfile.ZIP_DEFLATED, np.zeros((1, 16 * MIB), np.uint8))
    size = (16 * MIB + 128).to_bytes(4, "little")
    assert whole.count(size) == 2
    tracemalloc.start()
    try:
        assert npz_headers(whole, 64 * MIB)["a"].shape == (1, 16 * MIB)
        with pytest.raises(InputError):
            read_npz(whole.replace(size, (1 << 10).to_bytes(4, "little")), 64 * MIB)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


def test_a_file_of_very_many_entries_is_refused_before_they_are_listed():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(5000):
            archive.writestr(str(number), b"")
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"at most 64 arrays in a \.npz file; found 5000"):
            read_npz(file.getvalue(), MIB)
        assert tracemalloc.get_traced_memory()[1] < 2 * MIB
    finally:
        tracemalloc.stop()


def test_bfloat16_is_written_as_float32_and_texts_are_refused():
    assert read_npy(write_npy(np.ones(2, ml_dtypes.bfloat16))).dtype == np.float32
    for texts in (np.array([b"a"], object), np.array(["a"])):
        with pytest.raises(InputError, match="accept application/json"):
            write_npz({"a": texts})


def test_arrays_are_read_from_files(tmp_path):
    array = np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "a.npy", array)
    np.savez_compressed(tmp_path / "a.npz", y=array)
    assert np.array_equal(read_npy_file(tmp_path / "a.npy", MIB), array)
    assert np.array_equal(read_npz_file(tmp_path / "a.npz", MIB)["y"], array)


@pytest.mark.parametrize("read", [read_npy_file, read_npz_file])
@pytest.mark.parametrize(
    "content",
    [None, b"", b"text", saved(np.zeros(9))[:-8], saved(np.array([None])), saved(np.array(["a"])), b" " * 2 * MIB],
)
def test_a_file_without_arrays_is_named(tmp_path, read, content):
    if content is not None:
        (tmp_path / "odd").write_bytes(content)
    with pytest.raises(InputError, match=f"{tmp_path}/odd"):
        read(tmp_path / "odd", MIB)


def test_an_archive_that_unpacks_to_more_than_was_allowed_is_named(tmp_path):
    np.savez_compressed(tmp_path / "bomb.npz", y=np.zeros(MIB))
    with pytest.raises(InputError, match=f"at most {MIB} bytes in a .npz file at {tmp_path}/bomb.npz"):
        read_npz_file(tmp_path / "bomb.npz", MIB)
