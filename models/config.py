"""Checks that configurations share: they reject bad values and repair none."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

from models.errors import ConfigError

ConfigT = TypeVar("ConfigT")


def require(condition: bool, expected: str, found: object, remedy: str = "correct the configuration") -> None:
    """Reject a configuration unless the condition holds.

    Raises:
        ConfigError: it does not.
    """
    if not condition:
        raise ConfigError(expected, str(found), remedy)


def require_positive(config: object, *names: str) -> None:
    """Reject a configuration in which a named field is not a positive integer.

    Raises:
        ConfigError: one is zero, negative, or no integer.
    """
    for name in names:
        value = getattr(config, name)
        require(type(value) is int and value > 0, f"{name} to be a positive integer", repr(value))


def require_fraction(config: object, *names: str) -> None:
    """Reject a configuration in which a named field is not in [0, 1).

    Raises:
        ConfigError: one is outside.
    """
    for name in names:
        value = getattr(config, name)
        require(type(value) in (int, float) and 0 <= value < 1, f"{name} in [0, 1)", repr(value))


def config_from_json(kind: type[ConfigT], values: Mapping[str, Any]) -> ConfigT:
    """Build a configuration dataclass from JSON values.

    Raises:
        ConfigError: a field is unknown or missing, or its value is rejected.
    """
    require(isinstance(values, Mapping), f"an object with the fields of {kind.__name__}", values)
    known = set(get_type_hints(kind))
    unknown = sorted(set(values) - known)
    require(not unknown, f"only fields of {kind.__name__}: {sorted(known)}", unknown, "remove the unknown fields")
    try:
        return kind(**values)
    except TypeError as error:
        raise ConfigError(f"every field of {kind.__name__}", str(error), "add the missing fields") from error


def config_to_json(config: Any) -> dict[str, Any]:
    """The fields of a configuration dataclass as JSON values."""
    return dataclasses.asdict(config)
