"""What one replica takes for its work, in seconds: measured by ``attendant capacity measure``, or stated by hand."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from attendant.errors import ConfigError
from serving.capacity.reading import made, read_plain
from serving.capacity.served import Additions, Served, require_rising
from serving.capacity.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """What an engine takes around its runs, in seconds.

    Attributes:
        step_s: for each run that decodes.
        row_s: for each sequence in it.
        prompt_s: for each run that reads prompts or sources.
        request_s: for each sequence in it.

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
        served: of the server, at each load that was measured, rising; empty where it adds nothing.
        fit_error: table → its largest error, relative, at points between those that it was made of; ``served`` → that
            of a simulation of the loads that it was made of, at the 95th percentile of the time to the first token.

    Raises:
        ConfigError: a table does not reach the capacity, or the loads of what is served do not rise.
    """

    name: str
    machine: str = ""
    gpus: int = 0
    capacity: int | None
    decode: Table
    prompt: Table | None = None
    encoder: Table | None = None
    overhead: Overhead = field(default_factory=Overhead)
    served: tuple[Served, ...] = ()
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
        require_rising(self.served)

    def decoding_s(self, rows: int, attended: int) -> float:
        """What an engine takes to give so many rows a token each, of which the longest attends so many positions.

        Raises:
            ConfigError: it lies beyond the table.
        """
        return self.decode.at(rows, attended) + self.overhead.step_s + rows * self.overhead.row_s

    def reading_s(self, rows: int, width: int, attended: int) -> float:
        """What it takes to read as many positions of each of so many prompts.

        Raises:
            ConfigError: it lies beyond the table, or there is none.
        """
        return self._table("prompt").at(rows * width, attended) + self._starting_s(rows)

    def encoding_s(self, rows: int, length: int) -> float:
        """What it takes to encode so many sources, of which the longest is so long.

        Raises:
            ConfigError: it lies beyond the table, or there is none.
        """
        return self._table("encoder").at(rows, length) + self._starting_s(rows)

    def additions(self, tokens_per_s: float) -> Additions:
        """What a server adds while so many tokens are answered a second."""
        return Additions(self.served, tokens_per_s)

    def _starting_s(self, rows: int) -> float:
        return self.overhead.prompt_s + rows * self.overhead.request_s

    def _table(self, name: str) -> Table:
        table: Table | None = getattr(self, name)
        if table is None:
            raise ConfigError(f"a table {name!r} in the profile of {self.name}", "none", "measure or add it")
        return table

    @classmethod
    def read(cls, path: Path) -> Profile:
        """The profile in a JSON file.

        Raises:
            ConfigError: the file is missing, or a value is none that it can have.
        """
        value = read_plain(path)
        parts = {
            name: _part(kind, value[name], f"{name!r} of {path}")
            for name, kind in _PARTS.items()
            if value.get(name) is not None
        }
        if "served" in value:
            parts["served"] = _loads(value["served"], path)
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
        text = json.dumps(self.to_json(), indent=1)
        path.write_text(_NUMBERS.sub(_on_one_line, text) + "\n", encoding="utf-8")


_REMEDY = "see docs/guides/capacity.md"
_PARTS: dict[str, type[Any]] = {
    "decode": Table,
    "prompt": Table,
    "encoder": Table,
    "overhead": Overhead,
}
_NUMBERS = re.compile(r"\[[^][{}\"]*\]")


def _on_one_line(numbers: re.Match[str]) -> str:
    return " ".join(numbers[0].split()).replace("[ ", "[").replace(" ]", "]")


def _loads(value: Any, path: Path) -> tuple[Served, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"a list as 'served' of {path}, one object a load", type(value).__name__, _REMEDY)
    return tuple(_part(Served, one, f"'served' of {path}") for one in value)


def _part(kind: type[Any], part: Any, place: str) -> Any:
    if not isinstance(part, dict):
        raise ConfigError(f"an object as {place}", type(part).__name__, _REMEDY)
    return made(kind, {key: _fixed(one) for key, one in part.items()}, place)


def _fixed(value: Any) -> Any:
    return tuple(_fixed(one) for one in value) if isinstance(value, list) else value


def _require_times(times: Any) -> None:
    for name in times.__dataclass_fields__:
        if not getattr(times, name) >= 0:
            raise ConfigError(f"{name} of at least 0", str(getattr(times, name)), f"correct {name}")
