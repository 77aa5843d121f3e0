"""The one table of varying axes: symbol → smallest, usual and largest size, for exporters, profiles and test cases."""

from __future__ import annotations

from dataclasses import dataclass

from models.errors import ConfigError
from models.tasks.graph import TaskGraph

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


def axes_of(graph: TaskGraph) -> dict[str, Axis]:
    """The varying axes of a graph.

    A step is one token when decoding; every other axis is usually half full.
    """
    axes = {"batch": Axis(usual=8, largest=MAX_BATCH)}
    for symbol, largest in graph.largest.items():
        axes[symbol] = Axis(usual=1 if symbol == "steps" else (largest + 1) // 2, largest=largest)
    return axes
