"""What every runtime offers: run a graph on arrays or on buffers that stay where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from attendant.signature import GraphSignature

Array = NDArray[Any]


class Buffer(Protocol):
    """A tensor that the runtime owns."""

    @property
    def address(self) -> int:
        """Where the first element lies."""

    @property
    def nbytes(self) -> int:
        """Size in bytes."""

    def numpy(self) -> Array:
        """The contents; on a CPU a view of the same memory."""

    def write(self, array: Array) -> None:
        """Replace the contents by an array of the same type and shape; the address stays."""

    def part(self, begin: int, shape: tuple[int, ...]) -> Buffer:
        """A buffer over a part of the same memory: the elements from ``begin`` on, in a shape of their own."""

    def copy_rows(self, sources: Sequence[int], targets: Sequence[int], positions: int | None = None) -> None:
        """Copy rows of the first axis to others, all at once, so that rows can be exchanged.

        Args:
            sources: the rows that are read.
            targets: the rows that are written, in the same order.
            positions: of the third axis, only so many of the first; all if None.
        """


class Runner(Protocol):
    """One graph, ready to run."""

    @property
    def signature(self) -> GraphSignature:
        """What goes in and what comes out."""

    def allocate(self, name: str, sizes: Mapping[str, int]) -> Buffer:
        """A zeroed buffer for the input of that name.

        Args:
            name: an input of the graph.
            sizes: the size of each of its varying axes.

        Raises:
            InputError: there is no such input, or a size is out of bounds.
        """

    def run(self, feeds: Mapping[str, Array | Buffer]) -> dict[str, Buffer]:
        """Run the graph once.

        An output that aliases an input is written into the buffer given for that input, and that very buffer is
        returned under the output's name.

        Args:
            feeds: a value for every input.

        Returns:
            Output name → buffer.

        Raises:
            InputError: an input is missing, unknown, or not as the signature says; an aliased input is no buffer.
        """


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy type of a signature's type word; of bfloat16, which NumPy has not, that of its bits."""
    stored = {"string": object, "bfloat16": np.uint16}
    return np.dtype(stored.get(dtype, dtype))
