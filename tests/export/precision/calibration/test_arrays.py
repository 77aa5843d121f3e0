"""Files of arrays that are damaged, hostile, or none."""

import io
import os
import zipfile

import numpy as np
import pytest

from attendant.errors import InputError
from export.precision.calibration import arrays as module
from export.precision.calibration.arrays import read_arrays


def npy(array=None, header=None):
    file = io.BytesIO()
    if header is None:
        np.save(file, np.ones((300, 4), np.float32) if array is None else array)
    else:
        np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue()


def npz(content=None, name="x.npy", method=zipfile.ZIP_DEFLATED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr(name, npy() if content is None else content)
    return file.getvalue()


def patched(data, local, central, value):
    """An archive with another byte in both headers of its only entry."""
    changed = bytearray(data)
    changed[local] = changed[data.index(b"PK\1\2") + central] = value
    return bytes(changed)


DAMAGED = {
    "empty": b"",
    "text": b"hello world",
    "pickle": b"\x80\x04K\x01.",
    "cut": npz()[:-10],
    "cut npy": npy()[:-9],
    "flipped bytes": npz()[:40] + bytes(one ^ 0xFF for one in npz()[40:60]) + npz()[60:],
    "encrypted": patched(npz(), 6, 8, 1),
    "unknown method": patched(npz(), 8, 10, 99),
    "no npy within": npz(b"hello", "x"),
    "no npy under its name": npz(b"hello"),
    "objects": npy(np.array([None]))[:64],
    "more rows than memory": npy(header={"descr": "<f4", "fortran_order": False, "shape": (10**12, 4)}),
    "rows below none": npz(npy(header={"descr": "<f4", "fortran_order": False, "shape": (-3, 4)})),
    "long header": b"\x93NUMPY\x03\x00" + (1 << 31).to_bytes(4, "little"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_file_is_refused_by_name(tmp_path, kind):
    path = tmp_path / "samples.npz"
    path.write_bytes(DAMAGED[kind])
    with pytest.raises(InputError, match=r"expected arrays of numbers in .*samples\.npz; found \S"):
        read_arrays(path, "x")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "samples.npz")
    with pytest.raises(InputError, match="is no file"):
        read_arrays(tmp_path / "samples.npz", "x")


@pytest.mark.parametrize(
    ("bound", "value"), [("MOST_BYTES", 1 << 19), ("available_memory", lambda: 1 << 20)], ids=["bytes", "memory"]
)
def test_arrays_are_bounded_before_they_are_unpacked(tmp_path, monkeypatch, bound, value):
    path = tmp_path / "samples.npz"
    path.write_bytes(npz(npy(np.zeros(1 << 20, np.uint8))))
    assert read_arrays(path, "")["x"].nbytes == 1 << 20
    monkeypatch.setattr(module, bound, value)
    assert path.stat().st_size < 1 << 12
    monkeypatch.setattr(np, "load", None)
    with pytest.raises(InputError, match=r"1048704 bytes of arrays, more than 524288"):
        read_arrays(path, "")


def test_one_reader_takes_both_kinds_of_file(tmp_path):
    for data, found in ((npy(), "named"), (npz(), "x")):
        (tmp_path / "samples").write_bytes(data)
        assert {name: array.shape for name, array in read_arrays(tmp_path / "samples", "named").items()} == {
            found: (300, 4)
        }
