"""What one replica takes for its work, in seconds: measured by ``python -m serving profile``, or stated by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from models.errors import ConfigError
from serving.simulation.reading import made, read_plain
from serving.simulation.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """What an engine takes around its runs, in seconds.

    Attributes:
        step_s: for each run that decodes.
        row_s: for each sequence in it.
        prompt_s: for each run that reads prompts or sources.
        request_s: to give a request its slot.

    Raises:
        ConfigError: one is negative.
    """

    step_s: float = 0.0
    row_s: float = 0.0
    prompt_s: float = 0.0
    request_s: float = 0.0

    def __post_init__(self) -> None:
        _require_times(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What a server adds; its clients too, where they share the machine.

    Attributes:
        request_s: from sending a request until it stands in line, and from a sent response until it is read.
        request_busy_s: by which that takes longer while others are decoded.
        request_held_s: by which a request that comes holds up the decoding of others.
        response_s: to send one response; others wait for it, and leave together.
        response_wait: share of what is still to be sent at the end of a run that decoding waits for: both are threads
            of one Python process.

    Raises:
        ConfigError: one is negative, or the share is above 1.
    """

    request_s: float = 0.0
    request_busy_s: float = 0.0
    request_held_s: float = 0.0
    response_s: float = 0.0
    response_wait: float = 0.0

    def __post_init__(self) -> None:
        _require_times(self)
        if self.response_wait > 1:
            raise ConfigError("a response_wait from 0 to 1, a share", str(self.response_wait), "correct it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One replica of one model.

    Attributes:
        name: of the model.
        machine: in words.
        gpus: of one replica.
        capacity: positions of a prompt and its answer together; None where what is remembered does not grow.
        decode: a run that gives every row one token: rows × the longest that is attended, its own token included.
        prompt: a run that reads prompts: positions, padding counted × the longest that is attended; None where prompts
            are one start token, as a translator's.
        encoder: rows × length of the longest source; None without an encoder.
        overhead: of the engine.
        served: of the server.
        fit_error: table → its largest error, relative, at points between those that it was made of.

    Raises:
        ConfigError: a table does not reach the capacity.
    """

    name: str
    machine: str = ""
    gpus: int = 0
    capacity: int | None
    decode: Table
    prompt: Table | None = None
    encoder: Table | None = None
    overhead: Overhead = field(default_factory=Overhead)
    served: Served = field(default_factory=Served)
    fit_error: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.prompt is None and self.encoder is None:
            raise ConfigError("a table 'prompt' or 'encoder'", "neither", "say what reading takes")
        for name, table in (("decode", self.decode), ("prompt", self.prompt)):
            if table is not None and self.capacity is not None and table.lengths[-1] < self.capacity:
                found = f"up to {table.lengths[-1]}"
                raise ConfigError(f"lengths of {name!r} up to the capacity, {self.capacity}", found, "add them")
        if self.gpus < 0:
            raise ConfigError("gpus of at least 0", str(self.gpus), "correct gpus")

    @classmethod
    def read(cls, path: Path) -> Profile:
        """The profile in a JSON file.

        Raises:
            ConfigError: the file is missing, or a value is none that it can have.
        """
        value = read_plain(path)
        parts = {name: _part(kind, value, name, path) for name, kind in _PARTS.items() if value.get(name) is not None}
        profile: Profile = made(cls, {**value, **parts}, str(path))
        return profile

    def to_json(self) -> dict[str, Any]:
        """Itself as plain JSON values."""
        plain = asdict(self)
        for name, kind in _PARTS.items():
            if kind is Table and plain[name] is not None:
                del plain[name]["_known"]
        return plain

    def write(self, path: Path) -> None:
        """Write it to a JSON file that :meth:`read` reads."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")


_PARTS: dict[str, type[Any]] = {
    "decode": Table,
    "prompt": Table,
    "encoder": Table,
    "overhead": Overhead,
    "served": Served,
}


def _part(kind: type[Any], value: Mapping[str, Any], name: str, path: Path) -> Any:
    place = f"{name!r} of {path}"
    part = value[name]
    if not isinstance(part, dict):
        raise ConfigError(f"an object as {place}", type(part).__name__, "see docs/capacity.md")
    return made(kind, {key: _fixed(one) for key, one in part.items()}, place)


def _fixed(value: Any) -> Any:
    return tuple(_fixed(one) for one in value) if isinstance(value, list) else value


def _require_times(times: Any) -> None:
    for name in times.__dataclass_fields__:
        if not getattr(times, name) >= 0:
            raise ConfigError(f"{name} of at least 0", str(getattr(times, name)), f"correct {name}")
