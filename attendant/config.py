"""Checks that configurations share: they reject bad values and repair none."""

import dataclasses
import json
from collections.abc import Collection, Mapping
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from attendant.errors import ConfigError

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


def require_bool(config: object, *names: str) -> None:
    """Reject a configuration in which a named field is neither true nor false.

    Raises:
        ConfigError: one is something else.
    """
    for name in names:
        value = getattr(config, name)
        require(type(value) is bool, f"{name} to be true or false", repr(value))


def require_choice(config: object, name: str, allowed: Collection[str]) -> None:
    """Reject a configuration in which a field is none of the allowed words.

    Raises:
        ConfigError: it is another.
    """
    value = getattr(config, name)
    require(value in allowed, f"{name}, one of {list(allowed)}", repr(value))


def require_token(config: object, vocabulary: int, *names: str) -> None:
    """Reject a configuration in which a named field is no token of the vocabulary.

    Raises:
        ConfigError: one is outside.
    """
    for name in names:
        value = getattr(config, name)
        inside = type(value) is int and 0 <= value < vocabulary
        require(inside, f"{name} inside the vocabulary of {vocabulary}", repr(value))


def config_from_json(kind: type[ConfigT], values: Mapping[str, Any]) -> ConfigT:
    """Build a configuration dataclass, and those that its fields hold, from JSON values.

    Raises:
        ConfigError: a field is unknown or missing, or its value is rejected.
    """
    require(isinstance(values, Mapping), f"an object with the fields of {kind.__name__}", values)
    hints = get_type_hints(kind)
    unknown = sorted(set(values) - set(hints))
    require(not unknown, f"only fields of {kind.__name__}: {sorted(hints)}", unknown, "remove the unknown fields")
    fields = {name: _value_of(hints[name], value) for name, value in values.items()}
    try:
        return kind(**fields)
    except TypeError as error:
        raise ConfigError(f"every field of {kind.__name__}", str(error), "add the missing fields") from error


def config_to_json(config: Any) -> dict[str, Any]:
    """The fields of a configuration dataclass as JSON values, so that a tuple becomes a list."""
    fields: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config)))
    return fields


def _value_of(hint: Any, value: Any) -> Any:
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if value is None and type(None) in options:
        return None
    if isinstance(value, list) and any(get_origin(option) is tuple for option in options):
        return tuple(value)
    kind: Any = next((option for option in options if dataclasses.is_dataclass(option)), None)
    return value if kind is None else config_from_json(kind, value)
