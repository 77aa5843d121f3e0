"""Lengths that a recorded step is made for: few of them, so that few steps need a recording of their own.

A step over a cache attends to as many positions as its mask is long. Positions beyond those that are filled are masked
out: a longer mask gives the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from models.signature import GraphSignature
from serving.runtime.base import Array

ATTENDED = "attended"
SMALLEST = 64


def bucket(size: int, largest: int) -> int:
    """The power of two from :data:`SMALLEST` on that holds a size, or the largest size."""
    return min(max(SMALLEST, 1 << (size - 1).bit_length()), largest)


def lengthened(signature: GraphSignature, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs of a step with its masks as long as their bucket; others as they are."""
    if any(ATTENDED in spec.axes for spec in signature.outputs) or ATTENDED not in signature.axes:
        return dict(arrays)
    axes = {spec.name: spec.axes.index(ATTENDED) for spec in signature.inputs if ATTENDED in spec.axes}
    largest = signature.axes[ATTENDED].largest
    return {name: _long(array, axes[name], largest) if name in axes else array for name, array in arrays.items()}


def _long(mask: Array, axis: int, largest: int) -> Array:
    assert mask.dtype == np.bool_, "only masks have an axis of attended positions"
    longer = np.zeros([bucket(size, largest) if at == axis else size for at, size in enumerate(mask.shape)], np.bool_)
    longer[tuple(slice(size) for size in mask.shape)] = mask
    return longer
