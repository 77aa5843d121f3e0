"""What one replica takes for its work, in seconds: measured by ``attendant capacity measure``, or stated by hand."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from attendant.errors import ConfigError
from attendant.output_files import write_output
from serving.capacity.config_file import build_config, read_config
from serving.capacity.table import TimeTable

MOST_FIT_ERROR = 0.2
"""Of a profile that plans may rest on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOverhead:
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
        _require_nonnegative(self, "step_s", "row_s", "prompt_s", "request_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOverhead:
    """What a server adds to its engine.

    Attributes:
        request_s: of a request, all of its time to the first token that is spent outside of the engine: client,
            network, server, checks.
        factor: by which a step takes longer than in a process that does nothing else.

    Raises:
        ConfigError: ``request_s`` is negative, or ``factor`` is not above 0.
    """

    request_s: float = 0.0
    factor: float = 1.0

    def __post_init__(self) -> None:
        _require_nonnegative(self, "request_s")
        if not self.factor > 0:
            raise ConfigError("a factor above 0", str(self.factor), "correct factor")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaProfile:
    """One replica of one model.

    Attributes:
        name: of the model.
        machine: in words.
        gpus: of one replica.
        capacity: positions of a prompt and its answer together; None where the state does not grow.
        decode: a run that gives every row one token: rows × the longest that is attended, its own token included.
        prompt: a run that reads prompts: positions, padding counted × the longest that is attended; None where prompts
            are one start token, as a translator's.
        encoder: rows × length of the longest source; None without an encoder.
        overhead: of the engine.
        served: of the server.
        fingerprint: of the artefact that was measured; empty of a profile that was written by hand.
        fit_error: table → its largest error, relative, at points between those that it was made of; ``served`` → that
            of a simulation of a load that was measured, at the 95th percentile of the time to the first token.

    Raises:
        ConfigError: a table does not reach the capacity.
    """

    name: str
    machine: str = ""
    gpus: int = 0
    capacity: int | None
    decode: TimeTable
    prompt: TimeTable | None = None
    encoder: TimeTable | None = None
    overhead: EngineOverhead = field(default_factory=EngineOverhead)
    served: ServerOverhead = field(default_factory=ServerOverhead)
    fingerprint: str = ""
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

    def decode_s(self, rows: int, attended: int) -> float:
        """What it takes to give so many rows a token each, of which the longest attends so many positions.

        Raises:
            ConfigError: it lies beyond the table.
        """
        seconds = self.decode.at(rows, attended) + self.overhead.step_s + rows * self.overhead.row_s
        return self.served.factor * seconds

    def prefill_s(self, rows: int, width: int, attended: int) -> float:
        """What it takes to read as many positions of each of so many prompts.

        Raises:
            ConfigError: it lies beyond the table, or there is none.
        """
        return self._read_s(self.prompt, "prompt", rows, rows * width, attended)

    def encode_s(self, rows: int, length: int) -> float:
        """What it takes to encode so many sources, of which the longest is so long.

        Raises:
            ConfigError: it lies beyond the table, or there is none.
        """
        return self._read_s(self.encoder, "encoder", rows, rows, length)

    def _read_s(self, table: TimeTable | None, name: str, rows: int, size: int, length: int) -> float:
        if table is None:
            raise ConfigError(f"a table {name!r} in the profile of {self.name}", "none", "measure or add it")
        seconds = table.at(size, length) + self.overhead.prompt_s + rows * self.overhead.request_s
        return self.served.factor * seconds

    @property
    def misfit(self) -> str:
        """Which fits are too poor to plan with, and what to do; empty if none is."""
        poor = {name: error for name, error in self.fit_error.items() if not error <= MOST_FIT_ERROR}
        if not poor:
            return ""
        found = ", ".join(f"{name} {error:.0%}" for name, error in poor.items())
        return (
            f"the fit errs by {found}, {MOST_FIT_ERROR:.0%} allowed; measure again on a machine that does nothing else"
        )

    @classmethod
    def read(cls, path: Path) -> ReplicaProfile:
        """Read a JSON file.

        Raises:
            ConfigError: the file is missing, or a value is none that it can have.
        """
        values = read_config(path)
        for name, kind in _PARTS.items():
            if (part := values.get(name)) is None:
                continue
            place = f"{name!r} of {path}"
            if not isinstance(part, dict):
                raise ConfigError(f"an object as {place}", type(part).__name__, "see docs/guides/capacity.md")
            values[name] = build_config(kind, part, place)
        profile: ReplicaProfile = build_config(cls, values, str(path))
        return profile

    def to_json(self) -> dict[str, Any]:
        """Itself as plain JSON values."""
        values = asdict(self)
        for name, kind in _PARTS.items():
            if kind is TimeTable and values[name] is not None:
                del values[name]["_cache"]
        return values

    def write(self, path: Path) -> None:
        """Write it to a JSON file that :meth:`read` reads; lists of numbers stand on one line."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.to_json(), indent=1)
        text = re.sub(r"\[\s*([^][{}\"]*?)\s*\]", lambda numbers: f"[{' '.join(numbers[1].split())}]", text)
        write_output(path, text + "\n")


_PARTS: dict[str, type[Any]] = {
    **dict.fromkeys(("decode", "prompt", "encoder"), TimeTable),
    "overhead": EngineOverhead,
    "served": ServerOverhead,
}


def _require_nonnegative(times: Any, *names: str) -> None:
    for name in names:
        if not getattr(times, name) >= 0:
            raise ConfigError(f"{name} of at least 0", str(getattr(times, name)), f"correct {name}")
