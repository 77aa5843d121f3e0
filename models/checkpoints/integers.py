"""Matrices that a checkpoint holds in integers of 4 or 8 bits, and what stands for them in a safetensors file.

    W = s q             symmetric: q in −8 … 7 or −128 … 127
    W = s (q − z)       with a whole zero point: q and z in 0 … 15
    W = s q − m         with a minimum: q in 0 … 15

A file holds ``W.levels``, ``W.scale`` and, where there is one, ``W.zero`` or ``W.minimum`` in the place of ``W``.
Levels of 4 bits are two in a byte, the first in its lower half. A model computes with the float32 numbers that the
formula gives, which are exact for scales of 16 bits; a graph in integers keeps levels and scales
(:mod:`export.passes.quantise.keep_integers`).

Legend: W and q are [out, in]; s, z and m are [out, blocks], of which each stands for in / blocks numbers of a row.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from attendant.errors import ArtefactError

Bits = Literal[4, 8]
LEVELS, SCALE, ZERO, MINIMUM = PARTS = (".levels", ".scale", ".zero", ".minimum")
LEAST_BLOCK = 16
"""Numbers that share a scale, unless a row has one alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Integers:
    """One matrix.

    Attributes:
        bits: of a level.
        levels: int8 [out, in].
        scale: float32 [out, blocks].
        zero: int8 [out, blocks], of 4 bits alone.
        minimum: float32 [out, blocks], of 4 bits alone.
    """

    bits: Bits
    levels: Tensor
    scale: Tensor
    zero: Tensor | None = None
    minimum: Tensor | None = None

    @property
    def block_size(self) -> int:
        """Numbers of a block."""
        return self.levels.shape[1] // self.scale.shape[1]

    def dequantise(self) -> Tensor:
        """W, float32 [out, in]."""
        blocked = self.levels.float().view(len(self.levels), -1, self.block_size)
        if self.zero is not None:
            blocked -= self.zero.float()[..., None]
        blocked *= self.scale[..., None]
        if self.minimum is not None:
            blocked -= self.minimum[..., None]
        return blocked.view(self.levels.shape)

    def take(self, rows: Tensor) -> "Integers":
        """Some of its rows, or all in another order, by their numbers."""
        zero, minimum = (None if part is None else part[rows] for part in (self.zero, self.minimum))
        return Integers(bits=self.bits, levels=self.levels[rows], scale=self.scale[rows], zero=zero, minimum=minimum)

    def rearrange(self, change: Callable[[Tensor], Tensor]) -> "Integers | None":
        """What a matrix becomes whose rows are chosen, moved or parted; none where a change does more than that.

        Args:
            change: from W to another matrix.
        """
        size = self.block_size

        def by_block(part: Tensor | None) -> Tensor | None:
            return None if part is None else change(part.repeat_interleave(size, 1))[:, ::size].contiguous()

        levels, scale = change(self.levels).contiguous(), by_block(self.scale)
        if levels.ndim != 2 or levels.shape[1] != self.levels.shape[1] or scale is None:
            return None
        made = Integers(
            bits=self.bits, levels=levels, scale=scale, zero=by_block(self.zero), minimum=by_block(self.minimum)
        )
        return made if torch.equal(made.dequantise(), change(self.dequantise())) else None

    def tensors(self, name: str) -> dict[str, Tensor]:
        """What a file holds for the parameter of that name."""
        levels = self.levels if self.bits == 8 else _pack(self.levels)
        parts = {LEVELS: levels, SCALE: self.scale, ZERO: self.zero, MINIMUM: self.minimum}
        return {f"{name}{part}": tensor.contiguous() for part, tensor in parts.items() if tensor is not None}


def logical_shapes(shapes: Mapping[str, tuple[int, ...]], types: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
    """The shapes of a file's parameters, in integers or not.

    Args:
        shapes: of the tensors in the file.
        types: of the same, as safetensors calls them.

    Raises:
        ArtefactError: a part is missing or alone, or of a type or shape that does not fit the others.
    """
    found = dict(shapes)
    for name in [one.removesuffix(LEVELS) for one in shapes if one.endswith(LEVELS)]:
        parts = {
            part: (found.pop(f"{name}{part}"), types[f"{name}{part}"]) for part in PARTS if f"{name}{part}" in found
        }
        (rows, width), _ = parts[LEVELS] if len(parts[LEVELS][0]) == 2 else ((0, 0), "")
        bits = {"U8": 4, "I8": 8}.get(parts[LEVELS][1], 0)
        columns = width * 2 if bits == 4 else width
        scale = parts.get(SCALE, ((), ""))
        blocks = scale[0][1] if len(scale[0]) == 2 else 0
        others = {ZERO: "I8", MINIMUM: "F32", SCALE: "F32"}
        fits = all(parts[part] == ((rows, blocks), kind) for part, kind in others.items() if part in parts)
        whole = blocks > 0 and columns % blocks == 0 and rows > 0
        if not (bits and fits and whole and name not in found and len(parts) == 2 + (len(parts) == 3 and bits == 4)):
            raise ArtefactError(
                f"levels and scales that fit each other for {name}", repr(parts)[:200], "import it again"
            )
        found[name] = (rows, columns)
    return found


def read_integers(name: str, names: Iterable[str], read: Callable[[str], Tensor]) -> Integers | None:
    """A parameter of a file that :func:`logical_shapes` has looked at; none where it is not in integers.

    Args:
        name: of the parameter.
        names: of the tensors in the file.
        read: one of these.
    """
    if f"{name}{LEVELS}" not in names:
        return None
    scale, zero, minimum = (read(f"{name}{part}") if f"{name}{part}" in names else None for part in PARTS[1:])
    stored = read(f"{name}{LEVELS}")
    assert scale is not None
    if stored.dtype == torch.int8:
        return Integers(bits=8, levels=stored, scale=scale)
    signed = zero is None and minimum is None
    return Integers(bits=4, levels=_unpack(stored, signed), scale=scale, zero=zero, minimum=minimum)


def _pack(levels: Tensor) -> Tensor:
    halves = levels.view(torch.uint8) & 15
    return halves[:, ::2] | (halves[:, 1::2] << 4)


def _unpack(packed: Tensor, signed: bool) -> Tensor:
    levels: Tensor = torch.stack((packed & 15, packed >> 4), -1).flatten(1).view(torch.int8)
    return ((levels ^ 8) - 8) if signed else levels
