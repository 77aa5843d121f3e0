"""Dataclasses ↔ JSON: a record that is read has the types of its fields, no field too many and none too few."""

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

RecordT = TypeVar("RecordT")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")
MOST_BYTES = 1 << 26
"""Of a file of JSON or text that somebody else wrote, other than a vocabulary."""


class FormatError(ValueError):
    """A file of another format than the one that is read here."""


def version_of(state: os.stat_result) -> tuple[int, int, int, int, int]:
    """What differs once a file has changed, also where its successor got its place, size and time of change."""
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


def record_to_json(record: Any) -> Any:
    """The fields as plain JSON values, so that a tuple becomes a list."""
    return json.loads(json.dumps(msgspec.to_builtins(record)))


def record_from_json(kind: type[RecordT], value: Any) -> RecordT:
    """The inverse of :func:`record_to_json`.

    Raises:
        ValueError: a value has another type than its field, or a field is unknown or missing; the message names it.
    """
    record = msgspec.convert(value, kind)
    _require_same(value, record_to_json(record), "$")
    return record


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text that somebody else wrote.

    Raises:
        ValueError: it is none, or is nested deeper than Python reads.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("JSON that is nested too deep") from error


def read_json(path: Path) -> Any:
    """The value of a JSON file that somebody else wrote.

    Raises:
        OSError: it cannot be read, see :func:`read_file`.
        ValueError: it is not JSON, is nested deeper than Python reads, or has texts that cannot be written.
    """
    text = read_file(path)
    value = parse_json(text)
    if _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()  # half of a character is an error here, and not where it is used
    return value


def read_file(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """The bytes of a file that somebody else wrote, which may be anything else: a pipe would wait, a device never end.

    Raises:
        OSError: it cannot be read, is no file, or is too large.
    """
    with open_file(path, most_bytes) as descriptor, open(descriptor, "rb", closefd=False) as file:
        return file.read(most_bytes)


@contextmanager
def open_file(path: Path, most_bytes: int = MOST_BYTES) -> Iterator[int]:
    """The descriptor of a file that somebody else wrote, for as long as the block lasts.

    Raises:
        OSError: it cannot be opened, is no file, or is too large.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(f"{path} is no file")
        if found.st_size > most_bytes:
            raise OSError(f"{path} has {found.st_size} bytes, more than {most_bytes}")
        yield descriptor
    finally:
        os.close(descriptor)


def read_record(kind: type[RecordT], path: Path, version: int) -> RecordT:
    """The record in a JSON file, beside whose fields stands ``format``.

    Raises:
        OSError: the file cannot be read.
        FormatError: it is of another format.
        ValueError: it is not JSON, or no such record.
    """
    value = read_json(path)
    if not isinstance(value, dict) or "format" not in value:
        raise ValueError("no object with a format")
    if value["format"] != version:
        raise FormatError(f"{path} is of format {value['format']!r}; this version reads format {version}")
    return record_from_json(kind, {key: field for key, field in value.items() if key != "format"})


def write_record(record: Any, path: Path, version: int) -> None:
    """Write the file that :func:`read_record` reads, in one step."""
    write_new_file(path, json.dumps({"format": version, **record_to_json(record)}, indent=2) + "\n")


def write_new_file(path: Path, text: str) -> None:
    """Put a file in the place of what is there, in one step, and never through a link that lies there.

    Raises:
        OSError: it cannot be written.
    """
    staged = path.with_name(f"{path.name}.part")
    staged.unlink(missing_ok=True)
    with staged.open("x", encoding="utf-8") as file:  # x: no link is followed
        file.write(text)
    staged.replace(path)


def _require_same(given: Any, kept: Any, place: str) -> None:
    if isinstance(given, dict) and isinstance(kept, dict):
        if given.keys() != kept.keys():
            wrong = sorted(given.keys() ^ kept.keys())
            raise ValueError(f"fields unknown or missing at {place}: {', '.join(map(repr, wrong))}")
        for key, value in given.items():
            _require_same(value, kept[key], f"{place}.{key}")
    elif isinstance(given, list) and isinstance(kept, list):
        for index, (value, other) in enumerate(zip(given, kept, strict=True)):
            _require_same(value, other, f"{place}[{index}]")
