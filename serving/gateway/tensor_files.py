"""Tensors as NumPy's files, ``.npy`` and ``.npz``: bounded before anything is made of them, and never unpickled.

Source: NumPy Enhancement Proposal 1, the .npy format.
"""

import io
import math
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.lib import format as npy

from attendant.errors import InputError
from clients.triton_client import Array

NPY, NPZ = "application/x-npy", "application/x-npz"
MOST_ARRAYS = 64
_ENDING = ".npy"
_HEADERS: dict[tuple[int, int], Any] = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_npy(data: bytes) -> Array:
    """The array of a ``.npy`` file.

    Raises:
        InputError: it is none, is cut short, or holds something else than numbers and truth values.
    """
    file = io.BytesIO(data)
    try:
        shape, in_columns, dtype = _HEADERS[npy.read_magic(file)](file)  # type: ignore[no-untyped-call]
    except (ValueError, KeyError, EOFError) as error:
        raise InputError("a .npy file", f"{type(error).__name__}: {error}", "write it with numpy.save") from error
    if dtype.kind not in "biuf":
        raise InputError("numbers or truth values in a .npy file", str(dtype), "convert the array")
    count, start = math.prod(shape), file.tell()
    if len(data) - start != count * dtype.itemsize:
        expected = f"{count * dtype.itemsize} bytes for {list(shape)} of {dtype} in a .npy file"
        raise InputError(expected, str(len(data) - start), "send the whole file")
    found = np.frombuffer(data, dtype, offset=start)
    return found.reshape(shape, order="F" if in_columns else "C")


def read_npz(data: bytes, most_bytes: int) -> dict[str, Array]:
    """The arrays of a ``.npz`` file by their names.

    Args:
        data: of the file.
        most_bytes: that its arrays may have together.

    Raises:
        InputError: it is none, too large once unpacked, or an array is none.
    """
    arrays, left = {}, most_bytes
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if len(entries) > MOST_ARRAYS:
                raise InputError(f"at most {MOST_ARRAYS} arrays in a .npz file", str(len(entries)), "send fewer")
            for entry in entries:
                with archive.open(entry) as file:
                    content = file.read(left + 1)
                left -= len(content)
                if left < 0:
                    raise InputError(f"arrays of at most {most_bytes} bytes in a .npz file", "more", "send fewer rows")
                arrays[entry.filename.removesuffix(_ENDING)] = read_npy(content)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise InputError("a .npz file", f"{type(error).__name__}: {error}", "write it with numpy.savez") from error
    return arrays


def write_npy(array: Array) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def write_npz(arrays: Mapping[str, Array]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            archive.writestr(name + _ENDING, write_npy(array))
    return file.getvalue()
