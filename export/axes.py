"""The one table of varying axes: symbol → smallest, usual and largest size, for exporters, profiles and test cases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from models.errors import ConfigError
from models.families.seq2seq import Seq2SeqConfig

MAX_BATCH = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """The sizes that a varying axis can take.

    Raises:
        ConfigError: not 1 ≤ smallest ≤ usual ≤ largest.
    """

    smallest: int = 1
    usual: int
    largest: int

    def __post_init__(self) -> None:
        if not 1 <= self.smallest <= self.usual <= self.largest:
            raise ConfigError("1 ≤ smallest ≤ usual ≤ largest", repr(self), "correct export/axes.py")


def axes_of(config: Any) -> dict[str, Axis]:
    """The varying axes of a model's graphs."""
    axes = {"batch": Axis(usual=8, largest=MAX_BATCH)}
    if isinstance(config, Seq2SeqConfig):
        target, source = config.max_target_length, config.max_source_length
        axes["source"] = Axis(usual=(source + 1) // 2, largest=source)
        axes["steps"] = Axis(usual=1, largest=target)
        axes["attended"] = Axis(usual=(target + 1) // 2, largest=target)
    return axes
