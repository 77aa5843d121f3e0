"""Plain values of a JSON or TOML file → a frozen dataclass, with errors that name the file and the key."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from attendant.errors import AttendantError, ConfigError


def read_config(path: Path) -> dict[str, Any]:
    """The object that a ``.json`` or ``.toml`` file holds.

    Raises:
        ConfigError: there is no such file, or it is none of these.
    """
    try:
        text = path.read_text(encoding="utf-8")
        value = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError) as error:  # both parsers raise kinds of ValueError
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
    try:
        return kind(**value)
    except AttendantError as error:
        raise ConfigError(f"{error.expected} in {place}", error.found, error.remedy) from error
    except (TypeError, ValueError) as error:
        raise ConfigError(f"values of the right type in {place}", str(error), "see docs/guides/capacity.md") from error
