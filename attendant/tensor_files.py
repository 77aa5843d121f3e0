"""Tensors as NumPy's files, ``.npy`` and ``.npz``: bounded before anything is made of them, and never unpickled.

Their headers say how large the arrays are, and are read first: what a model does not take is never unpacked.
Source: NumPy Enhancement Proposal 1, the .npy format.
"""

import io
import math
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from attendant.errors import InputError
from attendant.records import read_file

Array = NDArray[Any]
NPY, NPZ = "application/x-npy", "application/x-npz"
MOST_ARRAYS, MOST_AXES, MOST_SIZE = 64, 32, 2**31 - 1
_ENDING = ".npy"
_HEADERS: dict[tuple[int, int], Any] = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_MOST_HEADER = 1 << 14
"""Of bytes: NumPy reads headers of up to 10,000."""
_ENTRY = b"PK\x01\x02"  # in a zip file's list of its entries: zipfile reads all of them, whatever their number


class ArrayHeader(NamedTuple):
    """What a ``.npy`` file says of its array.

    Attributes:
        shape: of the array.
        dtype: of its values.
        in_columns: whether the first axis moves fastest.
        start: where the values begin in the file.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    in_columns: bool
    start: int

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def npy_header(data: bytes, size: int | None = None) -> ArrayHeader:
    """The header of a ``.npy`` file.

    Args:
        data: how the file begins.
        size: of the whole file, in bytes; that of ``data`` if not given.

    Raises:
        InputError: it is none, is cut short, or holds something else than numbers and truth values.
    """
    file = io.BytesIO(data)
    with _reading(".npy", "write it with numpy.save"):
        shape, in_columns, dtype = _HEADERS[npy.read_magic(file)](file)  # type: ignore[no-untyped-call]
    if dtype.kind not in "biuf":
        raise InputError("numbers or truth values in a .npy file", str(dtype), "convert the array")
    if len(shape) > MOST_AXES or not all(type(size) is int and 0 <= size <= MOST_SIZE for size in shape):
        expected = f"at most {MOST_AXES} axes of 0 to {MOST_SIZE} in a .npy file"
        raise InputError(expected, str(shape)[:200], "write it with numpy.save")
    header = ArrayHeader(shape, dtype, in_columns, file.tell())
    found = (len(data) if size is None else size) - header.start
    if found != header.nbytes:
        expected = f"{header.nbytes} bytes for {list(shape)} of {dtype} in a .npy file"
        raise InputError(expected, str(found), "send the whole file")
    return header


def npz_headers(data: bytes, most_bytes: int) -> dict[str, ArrayHeader]:
    """The headers of a ``.npz`` file's arrays by their names; no more than these is unpacked.

    Args:
        data: of the file.
        most_bytes: that its arrays may have together.

    Raises:
        InputError: it is none, is packed as NumPy does not, its arrays are too many or too large, or one is none.
    """
    with _open(data) as archive:
        return _read_headers(archive, most_bytes)


def read_npy(data: bytes) -> Array:
    """The array of a ``.npy`` file.

    Raises:
        InputError: as :func:`npy_header`.
    """
    header = npy_header(data)
    with _reading(".npy", "write it with numpy.save"):
        return _array(data, header)


def read_npz(data: bytes, most_bytes: int) -> dict[str, Array]:
    """The arrays of a ``.npz`` file by their names; see :func:`npz_headers`.

    Raises:
        InputError: as there, or it is damaged.
    """
    with _open(data) as archive:
        headers = _read_headers(archive, most_bytes)
        arrays = {}
        for name, entry in zip(headers, archive.infolist(), strict=True):
            header = headers[name]
            with archive.open(entry) as file:
                arrays[name] = _array(file.read(header.start + header.nbytes), header)
        return arrays


def read_npy_file(path: Path, most_bytes: int) -> Array:
    """The array of a ``.npy`` file of at most so many bytes.

    Raises:
        InputError: as :func:`npy_header`, or it cannot be read; the file is named.
    """
    with _of_file(path):
        return read_npy(read_file(path, most_bytes))


def read_npz_file(path: Path, most_bytes: int) -> dict[str, Array]:
    """The arrays of a ``.npz`` file, of at most so many bytes packed and unpacked, by their names.

    Raises:
        InputError: as :func:`read_npz`, or it cannot be read; the file is named.
    """
    with _of_file(path):
        return read_npz(read_file(path, most_bytes), most_bytes)


def write_npy(array: Array) -> bytes:
    """A ``.npy`` file.

    Raises:
        InputError: the array holds texts.
    """
    file = io.BytesIO()
    _save(file, array)
    return file.getvalue()


def write_npz(arrays: Mapping[str, Array]) -> bytes:
    """A ``.npz`` file.

    Raises:
        InputError: an array holds texts.
    """
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(name + _ENDING, "w", force_zip64=True) as entry:
                _save(entry, array)
    return file.getvalue()


@contextmanager
def _reading(kind: str, remedy: str) -> Iterator[None]:
    # Whatever NumPy and zipfile say of bytes that are no file of theirs, of which neither has a list.
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"a {kind} file", f"{type(error).__name__}: {error}"[:200], remedy) from error


@contextmanager
def _of_file(path: Path) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise InputError(f"{error.expected} at {path}", error.found, error.remedy) from error
    except (OSError, ValueError) as error:  # ValueError: a name that no file has
        raise InputError(f"a NumPy file at {path}", str(error), "correct the file or its name") from error


@contextmanager
def _open(data: bytes) -> Iterator[zipfile.ZipFile]:
    if (count := data.count(_ENTRY)) > MOST_ARRAYS:
        raise InputError(f"at most {MOST_ARRAYS} arrays in a .npz file", str(count), "send fewer")
    with _reading(".npz", "write it with numpy.savez"), zipfile.ZipFile(io.BytesIO(data)) as archive:
        yield archive


def _read_headers(archive: zipfile.ZipFile, most_bytes: int) -> dict[str, ArrayHeader]:
    headers: dict[str, ArrayHeader] = {}
    entries = archive.infolist()
    for entry in entries:
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            found = f"packed by method {entry.compress_type}"
            raise InputError("arrays stored or deflated in a .npz file", found, "write it with numpy.savez_compressed")
    if (size := sum(entry.file_size for entry in entries)) > most_bytes:
        raise InputError(f"arrays of at most {most_bytes} bytes in a .npz file", str(size), "send fewer rows")
    for entry in entries:
        name = entry.filename.removesuffix(_ENDING)
        if name in headers:
            raise InputError("a name for each array in a .npz file", f"{name!r} twice", "send each array once")
        with archive.open(entry) as file:
            headers[name] = npy_header(file.read(_MOST_HEADER), entry.file_size)
    return headers


def _array(data: bytes, header: ArrayHeader) -> Array:
    found = np.frombuffer(data, header.dtype, math.prod(header.shape), header.start)
    return found.reshape(header.shape, order="F" if header.in_columns else "C")


def _save(file: Any, array: Array) -> None:
    if array.dtype.kind in "OSU":
        raise InputError("outputs of numbers for a NumPy file", "texts", "accept application/json")
    # bfloat16 is no type of NumPy's own: its values are float32's.
    np.save(file, array.astype(np.float32) if array.dtype.kind == "V" else array, allow_pickle=False)
