"""Sources → what their decoders need of them: one run of the encoder for all that are admitted together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from serving.runtime.base import Array, Runner

_VARYING = "source"


def encoded(encoder: Runner, sources: Sequence[Mapping[str, Array]]) -> list[dict[str, Array]]:
    """What an encoder graph returns for each source, and the source's own mask.

    Args:
        encoder: the graph.
        sources: input name → array with a batch of one; texts may differ in length, images must not.

    Returns:
        For each source name → array without the batch axis, as long as the source itself.
    """
    axes = {spec.name: spec.axes for spec in (*encoder.signature.inputs, *encoder.signature.outputs)}
    feeds = {spec.name: _stacked([source[spec.name] for source in sources]) for spec in encoder.signature.inputs}
    known = {**feeds, **{name: buffer.numpy() for name, buffer in encoder.run(feeds).items()}}
    lengths = [_length(source, axes) for source in sources]
    return [
        {name: _of_row(array, axes[name], row, length) for name, array in known.items()}
        for row, length in enumerate(lengths)
    ]


def together(sources: Sequence[Mapping[str, Array]]) -> int:
    """How many of the sources, from the first on, one run can take."""
    shapes = [{name: array.shape for name, array in source.items() if array.ndim > 2} for source in sources]
    return next((count for count, shape in enumerate(shapes) if shape != shapes[0]), len(shapes))


def _stacked(arrays: Sequence[Array]) -> Array:
    longest = max(array.shape[1] for array in arrays)
    first = arrays[0]
    if all(array.shape[1] == longest for array in arrays):
        return np.concatenate(arrays)
    rows: Array = np.zeros((len(arrays), longest, *first.shape[2:]), dtype=first.dtype)
    for row, array in enumerate(arrays):
        rows[row, : array.shape[1]] = array[0]
    return rows


def _length(source: Mapping[str, Array], axes: Mapping[str, tuple[int | str, ...]]) -> int | None:
    for name, array in source.items():
        if _VARYING in axes[name]:
            return int(array.shape[axes[name].index(_VARYING)])
    return None


def _of_row(array: Array, axes: tuple[int | str, ...], row: int, length: int | None) -> Array:
    part: Array = array[row]
    if length is not None and _VARYING in axes:
        part = part[(slice(None),) * (axes.index(_VARYING) - 1) + (slice(length),)]
    return part
