"""What every runtime offers: run a graph on arrays or on buffers that stay where they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from attendant.errors import InputError
from attendant.signature import GraphSignature, TensorSpec

Array = NDArray[Any]


class Buffer(Protocol):
    """A tensor that the runtime owns."""

    @property
    def address(self) -> int:
        """Where the first element lies."""

    @property
    def nbytes(self) -> int: ...

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


class Admission:
    """The inputs of one graph, held to its signature at every call."""

    def __init__(self, signature: GraphSignature) -> None:
        self._signature = signature
        self._admitted: dict[str, tuple[str, tuple[int, ...]]] = {}

    def require_names(self, names: Collection[str]) -> None:
        """Refuse a call that does not feed each input once.

        Raises:
            InputError: an input is missing or unknown.
        """
        expected = {spec.name for spec in self._signature.inputs}
        if expected != set(names):
            raise InputError(
                f"the inputs {sorted(expected)}",
                f"missing {sorted(expected - set(names))}, unknown {sorted(set(names) - expected)}",
                "feed each input once",
            )

    def require(self, spec: TensorSpec, dtype: str, shape: tuple[int, ...]) -> None:
        """Refuse a tensor that the graph does not admit.

        Raises:
            InputError: the element type, the rank or a fixed axis differs, or a varying axis is out of bounds.
        """
        # From step to step hardly a shape changes, and a deep decoder has a hundred of them.
        if self._admitted.get(spec.name) != (dtype, shape):
            self._signature.check(spec, dtype, shape)
            self._admitted[spec.name] = dtype, shape


def not_a_buffer(name: str, found: object) -> InputError:
    """The refusal of what is no buffer of a runner for an input that its graph updates in place."""
    return InputError(
        f"a buffer of this runner for {name!r}, which the graph updates in place",
        type(found).__name__,
        f"allocate it once with runner.allocate({name!r}, sizes)",
    )


class ArrayBuffer:
    """A tensor on the CPU, of a runtime that takes and returns arrays."""

    def __init__(self, array: Array) -> None:
        self._array = array

    @property
    def address(self) -> int:
        return int(self._array.ctypes.data)

    @property
    def nbytes(self) -> int:
        return int(self._array.nbytes)

    def numpy(self) -> Array:
        return self._array

    def write(self, array: Array) -> None:
        np.copyto(self._array, array, casting="no")

    def part(self, begin: int, shape: tuple[int, ...]) -> ArrayBuffer:
        return ArrayBuffer(array_part(self._array, begin, shape))

    def copy_rows(self, sources: Sequence[int], targets: Sequence[int], positions: int | None = None) -> None:
        copy_array_rows(self._array, sources, targets, positions)


def array_part(array: Array, begin: int, shape: tuple[int, ...]) -> Array:
    """So many elements of a contiguous array from one on, in another shape and the same memory."""
    return array.reshape(-1)[begin : begin + prod(shape)].reshape(shape)


def copy_array_rows(array: Array, sources: Sequence[int], targets: Sequence[int], positions: int | None) -> None:
    # What is read is a copy before anything is written: rows can be exchanged.
    if positions is None:
        array[list(targets)] = array[list(sources)]
    else:
        array[list(targets), :, :positions] = array[list(sources), :, :positions]
