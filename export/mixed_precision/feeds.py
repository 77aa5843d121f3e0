"""What a graph of others is measured with: inputs from files, or drawn at random with stated seeds.

A float is drawn from the normal distribution, an index below the rows of the table that it is looked up in, any other
integer and every bool from 0 and 1; along the last axis the first of these is 1, so that no row is masked as a whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir

from attendant.errors import InputError
from export.precision.calibration.arrays import read_arrays
from export.precision.calibration.files import array_files
from serving.runtime.base import Array

MOST = 32
"""Samples; of more, as many are taken, evenly spread."""
_USUAL, _BATCH = 16, 1
_PASSING = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Clip"})
Feed = dict[str, Array]


@dataclass(frozen=True, slots=True)
class Feeds:
    """Inputs of a graph.

    Attributes:
        source: where they come from.
        samples: one mapping from name to array a sample.
    """

    source: str
    samples: tuple[Feed, ...]


def feeds_for(model: ir.Model, path: Path | None, count: int, sizes: Mapping[str, int]) -> Feeds:
    """Read or draw the inputs.

    Args:
        model: the graph.
        path: an ``.npz`` whose arrays are called as the inputs, an ``.npy`` for a graph of one input, or a folder of
            such; an array's first axis counts samples, or rows of the fixed batch. Without it they are drawn.
        count: of samples that are drawn, with the seeds 0 to count − 1.
        sizes: of the axes that vary, for what is drawn; the first axis of an input is 1 if not given, others 16.

    Raises:
        InputError: no file is there, or an array is none of this graph's.
    """
    if path is None:
        drawn = tuple(_draw(model, seed, sizes) for seed in range(count))
        return Feeds(f"drawn at random, seeds 0 to {count - 1}", drawn)
    if not path.exists():
        raise InputError("samples", f"nothing at {path}", "correct --calibration")
    samples = [sample for file in array_files(path) for sample in _read(model, file)]
    if not samples:
        raise InputError(f"samples in {path}", "none", "name an .npz, an .npy or a folder of them with --calibration")
    chosen = np.linspace(0, len(samples) - 1, min(len(samples), MOST), dtype=int)
    return Feeds(path.name, tuple(samples[int(number)] for number in chosen))


def _draw(model: ir.Model, seed: int, sizes: Mapping[str, int]) -> Feed:
    rng = np.random.default_rng(seed)
    return {str(value.name): _drawn(value, rng, sizes) for value in model.graph.inputs}


def _drawn(value: ir.Value, rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
    if not isinstance(value.type, ir.TensorType) or value.shape is None or value.dtype is None:
        remedy = "give inputs with --calibration"
        raise InputError(f"a tensor of known rank as input {value.name!r}", str(value.type), remedy)
    shape = [
        axis if isinstance(axis, int) else sizes.get(str(axis.value), _USUAL if at else _BATCH)
        for at, axis in enumerate(value.shape)
    ]
    if value.dtype == ir.DataType.STRING:
        raise InputError("inputs of numbers", f"{value.name!r} of text", "give inputs with --calibration")
    rows = table_rows(value)
    try:
        if value.dtype.is_floating_point():
            return rng.standard_normal(shape).astype(value.dtype.numpy())
        drawn = rng.integers(0, rows or 2, shape)
    except ValueError as error:  # of sizes that no array has
        found, remedy = f"{shape}: {error}", "correct --sizes, or do not use this graph"
        raise InputError(f"sizes of an array for {value.name!r}", found, remedy) from error
    if shape and not rows:
        drawn[..., :1] = 1
    array: Array = drawn.astype(value.dtype.numpy())
    return array


def table_rows(value: ir.Value) -> int:
    """Of the smallest constant table in which an input is looked up, how many rows; 0 where there is none."""
    rows, passed = [], [value]
    while passed:
        for user, index in passed.pop().uses():
            if user.op_type in _PASSING and index == 0:
                passed.append(user.outputs[0])
            elif user.op_type == "Gather" and index == 1:
                table = user.inputs[0]
                axis = user.attributes.get_int("axis", 0)
                if table is not None and table.is_initializer() and table.shape is not None:
                    rows.append(int(table.shape.numpy()[axis]))
    return min((count for count in rows if count), default=0)


def _read(model: ir.Model, file: Path) -> Iterator[Feed]:
    names = [str(value.name) for value in model.graph.inputs]
    arrays = read_arrays(file, next(iter(names), ""))
    if sorted(arrays) != sorted(names):
        raise InputError(f"the inputs {sorted(names)} in {file}", str(sorted(arrays)), "name arrays as the inputs are")
    parts = {str(value.name): _parts(value, arrays[str(value.name)], file) for value in model.graph.inputs}
    counts = {len(one) for one in parts.values()} - {1}
    if len(counts) > 1:
        found = {name: len(one) for name, one in parts.items()}
        raise InputError(f"as many samples of each input in {file}", str(found), "correct the file")
    for number in range(max(counts, default=1)):
        yield {name: one[number if len(one) > 1 else 0] for name, one in parts.items()}


def _parts(value: ir.Value, array: Array, file: Path) -> Sequence[Array]:
    if not isinstance(value.type, ir.TensorType) or value.dtype is None:
        raise InputError(f"a tensor as input {value.name!r}", str(value.type), "cut the graph behind it")
    wanted = value.dtype.numpy()
    shape = None if value.shape is None else [axis if isinstance(axis, int) else None for axis in value.shape]
    same_kind = array.dtype == wanted or (array.dtype.kind == wanted.kind == "f")
    if not same_kind or (shape is not None and len(shape) != array.ndim):
        found = f"{array.dtype.name} {list(array.shape)}"
        raise InputError(f"{value.name!r} of {wanted.name} {value.shape} in {file}", found, "correct the file")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise InputError(f"numbers in {value.name!r} of {file}", "NaN", "correct the file")
    with np.errstate(over="ignore"):
        given, array = array, array.astype(wanted)
    if array.dtype.kind == "f" and (np.isinf(array) & np.isfinite(given)).any():  # an infinity may be a mask's
        raise InputError(
            f"numbers that {wanted.name} holds in {value.name!r} of {file}", "larger ones", "correct the file"
        )
    if array.ndim == 0 or shape is None:
        return [array]
    rows = shape[0] or 1
    fixed = all(axis in (None, size) for axis, size in zip(shape[1:], array.shape[1:], strict=True))
    if not fixed or array.shape[0] % rows or not array.shape[0]:
        raise InputError(f"{value.name!r} of shape {value.shape} in {file}", str(list(array.shape)), "correct the file")
    return [array[at : at + rows] for at in range(0, array.shape[0], rows)]
