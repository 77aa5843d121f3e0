"""Plain values of a JSON or TOML file → a frozen dataclass, with errors that name the file and the key."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from attendant.errors import AttendantError, ConfigError
from attendant.printable import shown
from attendant.records import read_file, read_json

MOST_NUMBER = 1e12
"""Of tokens, seconds, money or whatever a file says."""


def read_config(path: Path) -> dict[str, Any]:
    """The object that a ``.json`` or ``.toml`` file holds.

    Raises:
        ConfigError: there is no such file, or it is none of these.
    """
    try:
        value = tomllib.loads(read_file(path).decode()) if path.suffix == ".toml" else read_json(path)
    except (OSError, ValueError, RecursionError) as error:  # both parsers raise kinds of ValueError
        raise ConfigError(f"a JSON or TOML file at {path}", str(error), "correct the path or the file") from error
    if not isinstance(value, dict):
        raise ConfigError(f"an object in {path}", type(value).__name__, "see docs/guides/capacity.md")
    return value


def build_config(kind: type[Any], value: Mapping[str, Any], place: str) -> Any:
    """A dataclass of a file's values.

    Raises:
        ConfigError: a key is unknown or missing, or a value is none that it can have; the message names the place.
    """
    known: dict[str, Field[Any]] = {spec.name: spec for spec in fields(kind) if spec.init}
    needed = {name for name, spec in known.items() if spec.default is MISSING and spec.default_factory is MISSING}
    if unknown := sorted(value.keys() - known.keys()):
        raise ConfigError(f"keys of {place} among {sorted(known)}", ", ".join(unknown), "correct or leave them out")
    if missing := sorted(needed - value.keys()):
        raise ConfigError(f"{', '.join(missing)} in {place}", "nothing", "add it; see docs/guides/capacity.md")
    hints = get_type_hints(kind)
    typed = {name: _typed(hints[name], one, f"{name} of", place) for name, one in value.items()}
    try:
        return kind(**typed)
    except AttendantError as error:
        raise ConfigError(f"{error.expected} in {place}", error.found, error.remedy) from error


def _typed(hint: Any, value: Any, name: str, place: str) -> Any:
    """The value as its field has it: tuples for lists, a float for an integer, and nothing else converted."""
    if is_dataclass(value):  # was built of its own table
        return value
    try:
        typed = msgspec.convert(value, hint)
    except (msgspec.ValidationError, OverflowError) as error:
        raise ConfigError(f"{name} the right type in {place}", str(error), "see docs/guides/capacity.md") from error
    if wrong := [one for one in _numbers(typed) if not abs(one) <= MOST_NUMBER]:
        raise ConfigError(f"{name} numbers up to {MOST_NUMBER:g} in {place}", shown(wrong[0]), "correct it")
    return typed


def _numbers(value: Any) -> Iterator[float]:
    """Those of a value and its rows; a fit's error, in a table, may be none: it is judged where a plan rests on it."""
    if isinstance(value, tuple):
        for one in value:
            yield from _numbers(one)
    elif isinstance(value, int | float):
        yield value
