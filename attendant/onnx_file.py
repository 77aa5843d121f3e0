"""An ONNX file of others, looked at before any library or runtime opens it: its bounds, and where its weights lie.

Libraries put functions in place wherever they are called, and call themselves for each subgraph: a file of a kilobyte
may be 2^60 nodes, and one of a megabyte the end of their stack. It may also take its weights from ``../../secret``.

Only the framing of protobuf is read, without the library: weights of gigabytes are stepped over and not copied.

Source: ``onnx.proto`` (field numbers); https://protobuf.dev/programming-guides/encoding.
"""

import mmap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from attendant.errors import ArtefactError

MOST_NODES = 100_000
"""In all graphs of a file; exports of published models have some thousands."""
MOST_NESTED = 32
"""Subgraphs within each other."""
MOST_FIELDS = 10_000_000
_PARTS: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}
"""Message → the fields in which a node or a tensor may lie."""
_KEY, _VALUE = 1, 2
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_LONGEST_VARINT, _TAG_BITS = 10, 32
_MALFORMED = "no ONNX file: its fields do not add up"
_EXPORT_AGAIN = "export the model again"
_NOT_OURS = "write the file again with the tool that made it"


def check_onnx_file(path: Path) -> set[str]:
    """Hold an ONNX file to the bounds within which libraries and runtimes read it.

    Returns:
        The names of the files that it takes its weights from, in whatever part of it.

    Raises:
        ArtefactError: it cannot be read, is no ONNX file, has model-local functions, or too many nodes or subgraphs
            within each other.
    """
    try:
        with path.open("rb") as file:
            if not path.stat().st_size:  # which cannot be mapped
                raise ValueError("an empty file")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _check(data, path)
    except (OSError, ValueError) as error:
        raise ArtefactError(f"an ONNX file at {path}", str(error), _EXPORT_AGAIN) from error


def weights_beside(path: Path) -> list[Path]:
    """The files that an ONNX file takes its weights from, all of which lie in its folder or below.

    Raises:
        ArtefactError: as :func:`check_onnx_file` does, or weights lie elsewhere, or are no file.
    """
    folder, found = path.parent.resolve(), list[Path]()
    for location in sorted(check_onnx_file(path)):
        plain = location and "\0" not in location and not Path(location).is_absolute()
        if not plain or not (file := (folder / location).resolve()).is_relative_to(folder):
            raise ArtefactError(f"weights of {path} in its own folder", repr(location), _NOT_OURS)
        if not file.is_file():
            raise ArtefactError(f"the weights of {path} in {location}", "no such file", "put it beside the graph")
        found.append(file)
    return found


def _check(data: mmap.mmap, path: Path) -> set[str]:
    locations: set[str] = set()
    waiting = [("model", 0, len(data), -1)]
    found: Counter[str] = Counter()
    count = 0
    while waiting:
        kind, begin, end, nested = waiting.pop()
        keys: set[bytes] = set()
        values: set[bytes] = set()
        for number, first, last in _fields(data, begin, end):
            count += 1
            if count > MOST_FIELDS:
                raise ValueError(f"more than {MOST_FIELDS} fields")
            if kind == "entry":
                (keys if number == _KEY else values).add(data[first:last])
            elif part := _PARTS[kind].get(number):
                found[part] += 1
                depth = nested + (part == "graph")
                _require_bounds(found, depth, path)
                waiting.append((part, first, last, depth))
        if b"location" in keys:
            locations |= {value.decode(errors="replace") for value in values}
    if not found["graph"]:
        raise ValueError("no graph in it")
    return locations


def _require_bounds(found: Counter[str], nested: int, path: Path) -> None:
    if found["function"]:
        remedy = "inline them first, with onnx.inliner.inline_local_functions"
        raise ArtefactError(f"an ONNX graph without functions of its own at {path}", "some", remedy)
    if found["node"] > MOST_NODES:
        raise ArtefactError(f"at most {MOST_NODES} nodes in {path}", "more", "divide the model")
    if nested > MOST_NESTED:
        expected = f"at most {MOST_NESTED} subgraphs within each other in {path}"
        raise ArtefactError(expected, "more", "write the model with fewer conditions and loops within each other")


def _fields(data: mmap.mmap, position: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Each field of a message that has a length: its number, and where it begins and ends."""
    while position < end:
        tag, position = _varint(data, position, end)
        if tag >> _TAG_BITS:  # which protobuf's C++ reader drops, and with them would see another field
            raise ValueError(_MALFORMED)
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
