"""The one table of varying axes: symbol → smallest, usual and largest size, for exporters, profiles and test cases."""

from __future__ import annotations

from models.signature import Axis
from models.tasks.graph import TaskGraph

MAX_BATCH = 32


def axes_of(graph: TaskGraph) -> dict[str, Axis]:
    """The varying axes of a graph.

    A step is one token when decoding; every other axis is usually half full.
    """
    axes = {"batch": Axis(usual=8, largest=MAX_BATCH)}
    for symbol, largest in graph.largest.items():
        axes[symbol] = Axis(usual=1 if symbol == "steps" else (largest + 1) // 2, largest=largest)
    return axes
