"""A GGUF file: its metadata, and where each of its tensors lies.

    magic, version · counts · key, type, value … · name, shape, type, offset … · padding · tensors

It is read by code of ours: the file is somebody else's, and the published reader takes every count and offset in it at
its word. Here nothing is read beyond the header's bound, nor a tensor beyond the file.
Source: the GGUF specification, version 3, of ggml (docs/gguf.md); sizes of blocks from ggml-common.h.
"""

import os
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from attendant.errors import ArtefactError
from attendant.records import open_file
from models.checkpoints.fitting import LARGEST_SIZE
from models.checkpoints.importers.quantised.scheme import Shape, refuse

Bytes = npt.NDArray[np.uint8]
BLOCKS = {
    "F32": (1, 4),
    "F16": (1, 2),
    "BF16": (1, 2),
    "Q4_0": (32, 18),
    "Q4_1": (32, 20),
    "Q8_0": (32, 34),
    "Q4_K": (256, 144),
    "Q6_K": (256, 210),
}
"""Type → the numbers of a block, and its bytes."""
_TYPES = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    6: "Q5_0",
    7: "Q5_1",
    8: "Q8_0",
    9: "Q8_1",
    10: "Q2_K",
    11: "Q3_K",
    12: "Q4_K",
    13: "Q5_K",
    14: "Q6_K",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    28: "F64",
    29: "IQ1_M",
    30: "BF16",
    34: "TQ1_0",
    35: "TQ2_0",
    39: "MXFP4",
}
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MAGIC, _VERSIONS = b"GGUF", (2, 3)
LARGEST_HEADER = 2**26
"""Bytes of the header: vocabularies of a quarter of a million tokens take ten million."""
_MOST_ENTRIES, _MOST_AXES, _LARGEST_ALIGNMENT = 2**16, 4, 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensor:
    """Where one tensor lies.

    Attributes:
        kind: its type, one of :data:`BLOCKS`.
        shape: the numbers of a row last.
        begin: of its first byte in the file.
        end: of the byte behind its last.
    """

    kind: str
    shape: Shape
    begin: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufFile:
    """One file.

    Attributes:
        path: where it is.
        values: its metadata.
        tensors: by name.
    """

    path: Path
    values: dict[str, Any]
    tensors: dict[str, StoredTensor]

    def bytes_of(self, name: str) -> Bytes:
        """The bytes of a tensor, [rows, bytes of a row]."""
        stored = self.tensors[name]
        numbers, size = BLOCKS[stored.kind]
        file: Bytes = np.memmap(self.path, np.uint8, "r")
        return np.array(file[stored.begin : stored.end]).reshape(-1, stored.shape[-1] // numbers * size)


class _Header:
    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def take(self, size: int) -> bytes:
        if size > len(self._data) - self.at:
            raise ValueError(f"a header that ends within {len(self._data)} bytes, of {LARGEST_HEADER} at most")
        self.at += size
        return self._data[self.at - size : self.at]

    def number(self, kind: str) -> Any:
        return struct.unpack(f"<{kind}", self.take(struct.calcsize(f"<{kind}")))[0]

    def text(self) -> str:
        return self.take(self.number("Q")).decode()

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind != _ARRAY:
            raise ValueError(f"a value of type {kind}")
        of, count = self.number("I"), self.number("Q")
        if of in _NUMBERS:
            dtype = np.dtype(_NUMBERS[of]).newbyteorder("<")
            return np.frombuffer(self.take(count * dtype.itemsize), dtype).tolist()
        if of != _STRING:
            raise ValueError(f"an array of type {of}")
        return [self.text() for _ in range(count)]  # each takes eight bytes of what is there


def read_gguf(path: Path) -> GgufFile:
    """Read the header of a file.

    Raises:
        ArtefactError: it is no whole GGUF file.
        ConfigError: a tensor is of a type that is not supported, or the file is one of several.
    """
    try:
        with open_file(path, sys.maxsize) as descriptor:
            size = os.fstat(descriptor).st_size
            header = _Header(os.read(descriptor, min(size, LARGEST_HEADER)))
        return _read(path, header, size)
    except (OSError, ValueError, struct.error) as error:
        raise ArtefactError(f"a whole GGUF file at {path}", str(error)[:300], "copy the file again") from error


def _read(path: Path, header: _Header, size: int) -> GgufFile:
    if header.take(4) != _MAGIC or (version := header.number("I")) not in _VERSIONS:
        raise ValueError(f"no GGUF file of versions {_VERSIONS}, little-endian")
    count, entries = header.number("Q"), header.number("Q")
    if max(count, entries) > _MOST_ENTRIES:
        raise ValueError(f"version {version} with {count} tensors and {entries} entries, of {_MOST_ENTRIES} at most")
    values = _unique(entries, lambda: (header.text(), header.value(header.number("I"))))
    if values.get("split.count", 1) != 1:
        raise refuse("GGUF", "one of several files (split.count): join them with llama-gguf-split --merge")
    alignment = values.get("general.alignment", 32)
    if type(alignment) is not int or not 0 < alignment <= _LARGEST_ALIGNMENT:
        raise ValueError(f"general.alignment {alignment!r}")
    found = _unique(count, lambda: (header.text(), _describe(header)))
    begin = -(-header.at // alignment) * alignment
    tensors, expected = {}, 0
    for name, (shape, number, offset) in found.items():
        kind = _TYPES.get(number, f"type {number}")
        if kind not in BLOCKS:
            raise refuse("GGUF", f"{kind}, of which {name} is")
        numbers, of_block = BLOCKS[kind]
        if shape[-1] % numbers or offset != expected:  # each right behind the one before, as ggml wants it
            raise ValueError(f"{name} of {kind}: rows of {shape[-1]} numbers at {offset}, not at {expected}")
        size_of = prod(shape) // numbers * of_block
        end, expected = begin + offset + size_of, offset + -(-size_of // alignment) * alignment
        if end > size:
            raise ValueError(f"{size} bytes, and {name} ends at {end}")
        tensors[name] = StoredTensor(kind=kind, shape=shape, begin=begin + offset, end=end)
    return GgufFile(path=path, values=values, tensors=tensors)


def _unique(count: int, read: Callable[[], tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(count):
        name, value = read()
        if name in found:
            raise ValueError(f"{name[:100]!r} twice")
        found[name] = value
    return found


def _describe(header: _Header) -> tuple[Shape, int, int]:
    axes = header.number("I")
    if not 1 <= axes <= _MOST_AXES:
        raise ValueError(f"a tensor of {axes} axes")
    shape = tuple(header.number("Q") for _ in range(axes))[::-1]
    if not all(0 < size <= LARGEST_SIZE for size in shape):
        raise ValueError(f"a tensor of shape {shape}")
    return shape, header.number("I"), header.number("Q")
