"""Request a custom model on a Triton server: tensors in, tensors out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from attendant.errors import InputError
from clients.served_model import ServedModel
from clients.tensors import FEW_BYTES
from clients.triton_client import Array, TritonClient

TASK = "predict"
TEXT = "object"
"""The type of a tensor of texts, in NumPy's words."""
_NUMBERS = (bool, int, float, np.number, np.bool_)
_TEXTS = (str, bytes)
_ROWS = (list, tuple, np.ndarray)
_KINDS = {str: "a text", bytes: "a text", dict: "an object", type(None): "null"}


class Predictor:
    """A served model of the task ``predict``."""

    def __init__(self, client: TritonClient, model: ServedModel) -> None:
        self._client = client
        self._model = model

    @classmethod
    async def find(cls, client: TritonClient, name: str | None = None) -> Predictor:
        """The model of that name, or the only one that the server has for the task.

        Raises:
            UnknownNameError: there is none, or a name is needed.
        """
        return cls(client, await client.model_for(TASK, name))

    @property
    def details(self) -> Mapping[str, Any]:
        """What the model's maker left for its clients: labels, units."""
        return self._model.parameters

    def require_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> int:
        """Compare a request with the model's contract, before its arrays are made.

        Args:
            shapes: input name → shape of its array.

        Returns:
            How many bytes the arrays have in the model's types; of texts, those of references to them.

        Raises:
            InputError: an input is missing or unknown, or has other axes, sizes or more rows than the model takes.
        """
        expected = self._model.inputs
        if shapes.keys() != expected.keys():
            raise InputError(f"the inputs {sorted(expected)}", str(sorted(shapes)), "give each input once")
        most = self._model.max_batch
        for name, sizes in expected.items():
            shape, sizes = shapes[name], (-1, *sizes) if most else sizes
            fits = len(shape) == len(sizes) and all(
                size in (-1, found) for size, found in zip(sizes, shape, strict=True)
            )
            if not fits or (most and shape[0] > most):
                axes = ["any" if size == -1 else str(size) for size in sizes]
                wanted = ", ".join([f"batch <= {most}", *axes[1:]] if most else axes)
                expected_array, param = f"an array of [{wanted}] for {name!r}", f"inputs.{name}"
                raise InputError(expected_array, str(list(shape)), "correct the request", param=param)
        return sum(prod(shape) * np.dtype(self._model.dtypes[name]).itemsize for name, shape in shapes.items())

    async def predict(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """One request.

        Args:
            inputs: input name → array or nested lists ``[B, …]``; numbers are converted to the model's types.

        Returns:
            Output name → array ``[B, …]``.

        Raises:
            InputError: an input is missing, unknown, of another shape, or no array of what the model takes, or the
                server refused it.
            ServerError: it failed, or did not answer in time.
        """
        few = sum(map(_estimate_values, inputs.values())) <= FEW_BYTES // np.dtype(np.float64).itemsize
        arrays = self._convert(inputs) if few else await asyncio.to_thread(self._convert, inputs)
        return await self._client.infer(self._model.name, arrays)

    def _convert(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        dtypes = self._model.dtypes
        read = {name: _read(name, value, dtypes.get(name, "")) for name, value in inputs.items()}
        self.require_shapes({name: shape for name, (shape, _) in read.items()})
        return {name: _convert(name, values, shape, dtypes[name]) for name, (shape, values) in read.items()}


def _estimate_values(value: Any) -> int:
    # Of an array, or of nested lists as far as their first rows tell it.
    if isinstance(value, list | tuple):
        return len(value) * _estimate_values(value[0]) if value else 1
    return int(np.size(value)) if hasattr(value, "__array__") else 1


def _read(name: str, value: Any, dtype: str) -> tuple[tuple[int, ...], Any]:
    # The shape of nested lists, and their values one after another; an array as it is. NumPy would make texts of
    # numbers beside a text, each as wide as the widest.
    if not isinstance(value, list | tuple | dict) and hasattr(value, "__array__"):
        array = np.asarray(value)
        return array.shape, array
    shape: list[int] = []
    values = [value]
    while values and isinstance(values[0], _ROWS):
        lengths = {len(one) if isinstance(one, _ROWS) else -1 for one in values}
        if len(lengths) > 1:
            lists = f"lists of {min(lengths)} and of {max(lengths)} values"
            raise _no_rows(name, dtype, "a value beside a list" if -1 in lengths else lists)
        shape.append(lengths.pop())
        values = list(chain.from_iterable(values))
    if odd := _odd_kind(values, _TEXTS if dtype == TEXT else _NUMBERS):
        raise _no_rows(name, dtype, odd)
    return tuple(shape), values


def _odd_kind(values: Iterable[Any], expected: tuple[type, ...]) -> str:
    for kind in set(map(type, values)):
        if not issubclass(kind, expected):
            return _KINDS.get(
                kind, "a list beside a value" if issubclass(kind, _ROWS) else f"a value of type {kind.__name__}"
            )
    return ""


def _convert(name: str, values: Any, shape: tuple[int, ...], dtype: str) -> Array:
    try:
        given = np.array(values, object) if dtype == TEXT and isinstance(values, list) else np.asarray(values)
        if given.dtype.kind in ("biuf" if dtype == TEXT else "SU"):
            raise TypeError(f"values of {given.dtype}")
        if given.dtype.kind in "fO" and isinstance(values, list) and np.dtype(dtype).kind in "iu":
            given = _whole(values, dtype)  # NumPy has rounded integers that it takes for floats
        with np.errstate(over="raise", invalid="ignore"):
            array: Array = given.astype(dtype, copy=False)
        if (
            array is not given and array.dtype.kind in "biu" and not np.array_equal(given, array)
        ):  # 1.5, or 300 in a byte
            raise ValueError(f"a number that is none of {dtype}")
        return array.reshape(shape)
    except (ValueError, TypeError, OverflowError, FloatingPointError, MemoryError) as error:
        raise _no_rows(name, dtype, str(error) or type(error).__name__) from error


def _whole(values: list[Any], dtype: str) -> Array:
    whole, bounds = [int(value) for value in values], np.iinfo(dtype)
    if whole != values or min(whole) < bounds.min or max(whole) > bounds.max:
        raise ValueError(f"a number that is none of {dtype}")
    return np.array(whole, dtype)


def _no_rows(name: str, dtype: str, found: str) -> InputError:
    kind = "texts" if dtype == TEXT else "numbers"
    expected, param = f"rows of {kind} of equal lengths for {name!r}", f"inputs.{name}"
    return InputError(expected, found, "correct the request", param=param)
