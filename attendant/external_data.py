"""Where an ONNX file says that its weights lie: read before any runtime opens it, as it may say ``../../secret``.

Only the framing of protobuf is read, without the library: weights of gigabytes are stepped over and not copied.

Source: ``onnx.proto`` (field numbers); https://protobuf.dev/programming-guides/encoding.
"""

import mmap
from collections.abc import Iterator
from pathlib import Path

_PARTS: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}
"""Message → the fields in which a tensor may lie."""
_KEY, _VALUE = 1, 2
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_LONGEST_VARINT = 10
MOST_FIELDS = 10_000_000
_MALFORMED = "no ONNX file: its fields do not add up"


def external_locations(path: Path) -> set[str]:
    """The names of the files that an ONNX file takes its weights from, in whatever part of it.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no protobuf message, or one of too many fields.
    """
    if not path.stat().st_size:
        return set()
    locations = set()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        waiting, count = [("model", 0, len(data))], 0
        while waiting:
            kind, begin, end = waiting.pop()
            keys: set[bytes] = set()
            values: set[bytes] = set()
            for number, first, last in _fields(data, begin, end):
                count += 1
                if count > MOST_FIELDS:
                    raise ValueError(f"more than {MOST_FIELDS} fields")
                if kind == "entry":
                    (keys if number == _KEY else values).add(data[first:last])
                elif part := _PARTS[kind].get(number):
                    waiting.append((part, first, last))
            if b"location" in keys:
                locations |= {value.decode(errors="replace") for value in values}
    return locations


def _fields(data: mmap.mmap, position: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Each field of a message that has a length: its number, and where it begins and ends."""
    while position < end:
        tag, position = _varint(data, position, end)
        number, wire = tag >> 3, tag & 7
        first = position
        if wire == _VARINT:
            _, position = _varint(data, position, end)
        elif wire == _BYTES:
            length, first = _varint(data, position, end)
            position = first + length
        elif wire in (_FIXED_64, _FIXED_32):
            position += 8 if wire == _FIXED_64 else 4
        else:
            raise ValueError(_MALFORMED)
        if position > end:
            raise ValueError(_MALFORMED)
        if wire == _BYTES:
            yield number, first, position


def _varint(data: mmap.mmap, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    for _ in range(_LONGEST_VARINT):
        if position >= end:
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise ValueError(_MALFORMED)
