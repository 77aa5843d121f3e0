"""A NumPy array as a runner's buffer."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from serving.runtime.base import Array


class ArrayBuffer:
    """A tensor on the CPU, of a runtime that takes and returns arrays."""

    def __init__(self, array: Array) -> None:
        self._array = array

    @property
    def address(self) -> int:
        """Where the first element lies."""
        return int(self._array.ctypes.data)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return int(self._array.nbytes)

    def numpy(self) -> Array:
        """The contents, the same memory."""
        return self._array

    def write(self, array: Array) -> None:
        """Replace the contents."""
        np.copyto(self._array, array, casting="no")

    def part(self, begin: int, shape: tuple[int, ...]) -> ArrayBuffer:
        """A part of the same memory."""
        return ArrayBuffer(array_part(self._array, begin, shape))

    def copy_rows(self, sources: Sequence[int], targets: Sequence[int], positions: int | None = None) -> None:
        """Copy rows to others, all at once."""
        copy_array_rows(self._array, sources, targets, positions)


def array_part(array: Array, begin: int, shape: tuple[int, ...]) -> Array:
    """So many elements of a contiguous array from one on, in another shape and the same memory."""
    return array.reshape(-1)[begin : begin + prod(shape)].reshape(shape)


def copy_array_rows(array: Array, sources: Sequence[int], targets: Sequence[int], positions: int | None) -> None:
    """See :meth:`serving.runtime.base.Buffer.copy_rows`."""
    # What is read is a copy before anything is written: rows can be exchanged.
    if positions is None:
        array[list(targets)] = array[list(sources)]
    else:
        array[list(targets), :, :positions] = array[list(sources), :, :positions]
