"""How much memory the caches of an engine take, from the manifest alone: known before anything is allocated."""

from dataclasses import dataclass
from math import prod
from typing import Self

from attendant.signature import GraphSignature, TensorSpec
from serving.runtime.base import numpy_dtype
from serving.runtime.cached_decoder import MOVING


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePlan:
    """The memory of a decoder graph's slots.

    Attributes:
        slots: sequences at once.
        tokens: positions of all slots together; None where the state does not grow.
        nbytes: of all slots together, with the longest sources.
    """

    slots: int
    tokens: int | None
    nbytes: int

    @classmethod
    def of(cls, decoder: GraphSignature, slots: int) -> Self:
        """The plan of a graph for so many slots."""
        kept = [spec for spec in decoder.inputs if spec.name not in MOVING]
        grows = any(spec.name == "self_mask" for spec in decoder.inputs)
        capacity = decoder.input(next(iter(decoder.aliases.values()))).axes[2] if grows else None
        return cls(
            slots=slots,
            tokens=None if capacity is None else slots * int(capacity),
            nbytes=slots * sum(_bytes_of_row(decoder, spec) for spec in kept),
        )

    def __str__(self) -> str:
        room = "states" if self.tokens is None else f"{self.tokens:,} tokens"
        return f"{self.slots} slots, {room}, {self.nbytes / 1e6:.1f} MB of cache"


def _bytes_of_row(decoder: GraphSignature, spec: TensorSpec) -> int:
    sizes = (decoder.axes[axis].max if isinstance(axis, str) else axis for axis in spec.axes[1:])
    return prod(sizes) * numpy_dtype(spec.dtype).itemsize
