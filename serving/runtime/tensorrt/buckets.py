"""Lengths that engines are run at: few of them, and which inputs can be lengthened without changing an answer.

    attended   masks grow by positions that nobody sees
    steps      new positions behind the real ones, which see what the last real one sees; what they write lies behind
               the row's tokens, where the next step writes
    scored     the last of them once more
    source, tokens, …   padding, where a mask of the graph tells of it
    batch      rows like the last one, where nothing is remembered of them

A recorded step is made for one length; an engine with plugins leaks whenever a length changes (NVIDIA/TensorRT #4849).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from attendant.signature import GraphSignature, TensorSpec
from serving.runtime.base import Array

ATTENDED, STEPS, SCORED, BATCH = "attended", "steps", "scored", "batch"
SMALLEST = {ATTENDED: 64, SCORED: 1, BATCH: 1}
_SMALLEST = 16
_START = "start"
_CAPACITY = 2  # of a cache [B, G, M, D]
_FILLABLE = ("bool", "int32", "int64")


def bucket(size: int, largest: int, smallest: int) -> int:
    """The power of two from the smallest on that holds a size, or the largest size."""
    return min(max(smallest, 1 << (size - 1).bit_length()), largest)


def of_steps(signature: GraphSignature) -> tuple[str, ...]:
    """The axes along which a recorded step is lengthened: how many positions it attends to."""
    shown = any(ATTENDED in spec.axes for spec in signature.outputs)
    return (ATTENDED,) if ATTENDED in signature.axes and not shown else ()


def of_runs(signature: GraphSignature) -> tuple[str, ...]:
    """Every axis along which a run can be lengthened, its results cut to size again."""
    return (*of_steps(signature), *(symbol for symbol in signature.symbols() if _has_padding(signature, symbol)))


def lengthen(signature: GraphSignature, arrays: Mapping[str, Array], symbols: Collection[str]) -> dict[str, Array]:
    """The inputs of a run, as long as the buckets of some axes; those that lie on the device stay as they are.

    Args:
        signature: of the graph.
        arrays: inputs that come from the host.
        symbols: axes that :func:`of_steps` or :func:`of_runs` names.
    """
    sizes = {symbol: size for symbol in symbols if (size := _bucket(signature, arrays, symbol)) is not None}
    specs = {spec.name: spec for spec in signature.inputs}
    return {name: _long(specs[name], array, sizes) for name, array in arrays.items()}


def _has_padding(signature: GraphSignature, symbol: str) -> bool:
    having = [spec for spec in signature.inputs if symbol in spec.axes]
    if symbol not in signature.axes:
        return False
    if symbol == BATCH:
        return not signature.aliases
    if symbol in (STEPS, SCORED):
        return any(spec.name == _START for spec in signature.inputs)
    masks = [spec for spec in having if spec.dtype == "bool"]
    flat = all(spec.axes == (BATCH, symbol) and spec.dtype in _FILLABLE for spec in having)
    return flat and len(masks) == 1 and len(having) > 1


def _bucket(signature: GraphSignature, arrays: Mapping[str, Array], symbol: str) -> int | None:
    places = [(spec.name, spec.axes.index(symbol)) for spec in signature.inputs if symbol in spec.axes]
    needed = [name for name, _ in places] + ([_START] if symbol == STEPS else [])
    if not all(name in arrays for name in needed):
        return None
    name, at = places[0]
    size, largest = arrays[name].shape[at], signature.axes[symbol].max
    longer = bucket(size, largest, SMALLEST.get(symbol, _SMALLEST))
    # The last positions of a cache are read at their own lengths: behind them there is no room.
    return longer if symbol != STEPS or longer <= _room(signature, arrays) else size


def _room(signature: GraphSignature, arrays: Mapping[str, Array]) -> int:
    cache = signature.input(next(iter(signature.aliases.values())))
    return int(cache.axes[_CAPACITY]) - int(arrays[_START].max())


def _long(spec: TensorSpec, array: Array, sizes: Mapping[str, int]) -> Array:
    for at, symbol in enumerate(spec.axes):
        more = sizes.get(str(symbol), array.shape[at]) - array.shape[at]
        if more > 0:
            last = array.take([-1], axis=at).repeat(more, axis=at)
            hidden = array.dtype == np.bool_ and symbol not in (STEPS, BATCH)  # a row, or a query, sees something
            array = np.concatenate([array, np.zeros_like(last) if hidden else last], axis=at)
    return array
