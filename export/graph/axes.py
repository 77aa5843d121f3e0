"""The one table of varying axes: symbol → its min, opt and max, for exporters, profiles and test cases."""

from attendant.signature import Axis
from attendant.tensor_names import HEIGHT, POSITIONS, WIDTH
from models.task_graph import TaskGraph

MAX_BATCH = 32


def axes_of(graph: TaskGraph) -> dict[str, Axis]:
    """The varying axes of a graph.

    A step is one token when decoding, and an image usually has the size that the model was trained for, its largest;
    every other axis is usually half full.
    """
    axes = {"batch": Axis(opt=8, max=MAX_BATCH)}
    for symbol, largest in graph.largest.items():
        axes[symbol] = Axis(min=graph.smallest.get(symbol, 1), opt=_usual(symbol, largest), max=largest)
    return axes


def _usual(symbol: str, largest: int) -> int:
    if symbol in (HEIGHT, WIDTH, POSITIONS):
        return largest
    return 1 if symbol in ("steps", "scored") else (largest + 1) // 2
