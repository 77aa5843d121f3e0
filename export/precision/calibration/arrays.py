"""A file of NumPy's that somebody else wrote, ``.npz`` or ``.npy``."""

import zipfile
from pathlib import Path

import numpy as np

from attendant.errors import InputError
from attendant.records import open_file
from export.bounded.process import available_memory
from serving.runtime.base import Array

MOST_BYTES = 1 << 32
"""Of the arrays of a file."""
MOST_MEMORY = 0.5
"""Likewise, of the memory that is available."""


def read_arrays(path: Path, name: str) -> dict[str, Array]:
    """The arrays by their names: bounded before any is unpacked, and never unpickled.

    Args:
        path: of the file.
        name: of the array of an ``.npy``.

    Raises:
        InputError: there is no such file, its arrays are too large together, or it holds anything else.
    """
    most = min(MOST_BYTES, int(MOST_MEMORY * available_memory()))
    try:
        with open_file(path, most) as descriptor, open(descriptor, "rb", closefd=False) as file:
            if zipfile.is_zipfile(file):
                size = sum(entry.file_size for entry in zipfile.ZipFile(file).infolist())
                if size > most:
                    raise ValueError(f"{size} bytes of arrays, more than {most}")
            file.seek(0)
            loaded = np.load(file, allow_pickle=False)
            arrays = {name: loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
    except Exception as error:  # of many kinds
        found = f"{type(error).__name__}: {str(error)[:300]}"
        raise InputError(f"arrays of numbers in {path}", found, "write it with numpy.savez") from error
    others = [key for key, value in arrays.items() if not isinstance(value, np.ndarray)]
    if others:
        raise InputError(f"arrays of numbers in {path}", f"{others[0]!r:.40}", "write it with numpy.savez")
    return arrays
