"""How a folder stores matrices in integers, whoever wrote it, and what of it has our arithmetic.

A scheme names the tensors that stand for one matrix, and reads them as :class:`models.checkpoints.integers.Integers`,
with the very levels and scales. To all else of the importer the matrix is one of float32, under the name that it would
have if nobody had quantised it.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from attendant.errors import ArtefactError, ConfigError
from models.checkpoints.importers.architecture import Change, identity
from models.checkpoints.importers.reader import Tensors
from models.checkpoints.integers import LEAST_BLOCK, Bits, Integers

SUPPORTED = (
    "floating-point weights, or integers of GPTQ (4 or 8 bits), AWQ (4), compressed-tensors (4 or 8) or GGUF (Q4_0,"
    " Q4_1, Q4_K, Q6_K, Q8_0)"
)
UNQUANTISED = (
    "import the model's unquantised checkpoint, and let `attendant export onnx --precision int4` or int8 quantise it"
)
_LARGEST_BLOCK = 256
_WORD = 32
Shape = tuple[int, ...]
ReadT = TypeVar("ReadT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """One way of storing a matrix.

    Attributes:
        name: as its users call it.
        parts: what follows a module's name in the names of its tensors; the first two are always there.
        shape: from the shapes of a matrix's parts to its own, [out, in].
        read: from the parts to the matrix.
        note: what the user should read.
        order: the part that says which group each column is of; none where the scheme has no such.
        group: numbers of a group; −1 for all of a row.
    """

    name: str
    parts: tuple[str, ...]
    shape: Callable[[Mapping[str, Shape]], Shape]
    read: Callable[[Mapping[str, Tensor]], Integers]
    note: str = ""
    order: str = ""
    group: int = -1


class QuantisedTensors:
    """The tensors of a folder, some of which are matrices in integers.

    Attributes:
        shapes: of every tensor, as if none were in integers.
        zeros: biases that are nothing but 0, which some programs give every matrix in integers.
    """

    def __init__(
        self,
        shapes: Mapping[str, Shape],
        sources: Mapping[str, Callable[[], Tensor | Integers]],
        turned: bool = False,
        zeros: Collection[str] = (),
    ) -> None:
        """Take what reads each tensor.

        Args:
            shapes: by name; of matrices in integers [out, in].
            sources: by the same names.
            turned: whether the library takes matrices in integers as [in, out].
            zeros: the names of biases that are nothing but 0.
        """
        self.shapes, self.zeros = dict(shapes), frozenset(zeros)
        self._sources, self._turned = sources, turned

    def read(self, name: str) -> Tensor:
        """One tensor; of a matrix in integers the float32 numbers that they stand for."""
        found = self._sources[name]()
        if not isinstance(found, Integers):
            return found
        return found.dequantise().mT if self._turned else found.dequantise()

    def integers(self, name: str, change: Change) -> Integers | None:
        """What a change makes of a matrix in integers; none where the tensor is none, or cannot be one afterwards."""
        found = self._sources[name]()
        if not isinstance(found, Integers) or (change is identity and not self._turned):
            return found if isinstance(found, Integers) else None
        return found.rearrange((lambda matrix: change(matrix.mT)) if self._turned else change)


def dequantised(stored: Tensors, scheme: Scheme, turned: bool = False) -> QuantisedTensors:
    """A folder's tensors with one matrix in the place of its parts.

    Raises:
        ArtefactError: parts do not fit each other, or a matrix is there twice.
        ConfigError: groups are scattered over a row.
    """
    levels, scale = scheme.parts[:2]
    modules = [name.removesuffix(levels) for name in stored.shapes if name.endswith(levels)]
    shapes, zeros = dict(stored.shapes), []
    sources: dict[str, Callable[[], Tensor | Integers]] = {name: partial(stored.read, name) for name in shapes}
    for module in modules:
        if f"{module}{scale}" not in stored.shapes:  # where levels are called as floats are
            continue
        parts = {part: f"{module}{part}" for part in scheme.parts if f"{module}{part}" in stored.shapes}
        own = {part: shapes.pop(name) for part, name in parts.items()}
        name = f"{module}.weight"
        if name in shapes:
            raise ArtefactError(f"{name} once", f"a matrix, and one in {sorted(own)}", UNQUANTISED)
        shape = _guarded(scheme, name, partial(scheme.shape, own))
        if scheme.order in parts:
            order = stored.read_stored(parts[scheme.order])
            _guarded(scheme, name, partial(_require_in_order, scheme, order, shape[1]))
        shapes[name] = shape[::-1] if turned else shape
        sources[name] = partial(_read, stored, scheme, name, parts)
        bias = f"{module}.bias"
        zeros += [bias] if bias in shapes and not stored.read(bias).any() else []
    return QuantisedTensors(shapes, sources, turned, zeros)


def _read(stored: Tensors, scheme: Scheme, name: str, parts: Mapping[str, str]) -> Integers:
    read = {part: stored.read_stored(one) for part, one in parts.items()}
    return _guarded(scheme, name, lambda: scheme.read(read))


def _guarded(scheme: Scheme, name: str, call: Callable[[], ReadT]) -> ReadT:
    try:
        return call()
    except (IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        expected = f"the parts of {name} in the form of {scheme.name}"
        raise ArtefactError(expected, f"{type(error).__name__}: {error}"[:300], UNQUANTISED) from error


def refuse(scheme: str, found: str) -> ConfigError:
    """The error for a kind of a scheme that has another arithmetic than ours."""
    return ConfigError(SUPPORTED, f"{scheme}: {found}"[:300], UNQUANTISED)


def unpack(packed: Tensor, bits: Bits) -> Tensor:
    """Levels of a row, uint8 [rows, words × 32 / bits], from words that hold the first in their lowest bits.

    Args:
        packed: int32 [rows, words].
        bits: of a level.

    Raises:
        TypeError: the words are none.
    """
    if packed.dtype != torch.int32:
        raise TypeError(f"{packed.dtype} instead of int32")
    shifts = torch.arange(0, _WORD, bits, dtype=torch.int32)
    levels: Tensor = ((packed[..., None] >> shifts) & (2**bits - 1)).to(torch.uint8).flatten(-2)
    return levels


def integers(
    scheme: str, bits: Bits, levels: Tensor, scale: Tensor, group: int, zero: Tensor | None = None
) -> Integers:
    """A matrix of s (q − z), in blocks of a size that a graph can have.

    Args:
        scheme: whose it is.
        bits: of a level.
        levels: uint8 [out, in].
        scale: a floating-point type, [out, groups].
        group: numbers of a group, as the configuration says; −1 for all of a row.
        zero: uint8 [out, groups]; the middle of all levels if not given.

    Raises:
        ConfigError: blocks are smaller than a graph's, or 8 bits have zero points.
        ValueError: shapes do not fit each other.
    """
    rows, columns = levels.shape
    size = columns if group == -1 else min(group, columns)
    if columns % size:
        raise refuse(scheme, f"groups of {size} numbers, which do not divide a row of {columns}")
    blocks = columns // size
    if scale.shape != (rows, blocks) or (zero is not None and zero.shape != scale.shape):
        raise ValueError(f"scales {tuple(scale.shape)} of levels {tuple(levels.shape)} in groups of {size}")
    if not scale.is_floating_point():
        raise TypeError(f"scales of {scale.dtype}")
    middle, scale = 1 << (bits - 1), scale.float()
    if zero is not None and bool((zero == middle).all()):
        zero = None
    if zero is not None and bits == 8:
        raise refuse(scheme, "8 bits with zero points")
    if bits == 4 or blocks > 1:
        part = min(size & -size, _LARGEST_BLOCK)
        if part < LEAST_BLOCK:
            raise refuse(scheme, f"blocks of {size} numbers, which no block of {LEAST_BLOCK} divides")
        scale = scale.repeat_interleave(size // part, 1)
        zero = None if zero is None else zero.repeat_interleave(size // part, 1)
    if zero is not None:
        return Integers(bits=bits, levels=levels.view(torch.int8), scale=scale, zero=zero.view(torch.int8))
    signed = (levels ^ 128).view(torch.int8) if bits == 8 else levels.view(torch.int8) - 8
    return Integers(bits=bits, levels=signed, scale=scale)


def group_size(scheme: str, found: object) -> int:
    """The numbers of a group as a configuration states them; −1, or nothing, for all of a row.

    Raises:
        ConfigError: it is no such number.
    """
    value = -1 if found is None else found
    if type(value) is not int or not (value == -1 or value > 0):
        raise refuse(scheme, f"group_size {found!r}")
    return value


def _require_in_order(scheme: Scheme, group_of: Tensor, columns: int) -> None:
    if tuple(group_of.shape) != (columns,):
        raise ValueError(f"groups {tuple(group_of.shape)} of {columns} columns")
    size = columns if scheme.group == -1 else scheme.group
    if not torch.equal(group_of.long(), torch.arange(columns) // size):
        raise refuse(scheme.name, "act-order (desc_act), whose groups are scattered over a row")
