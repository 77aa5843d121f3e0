"""How large the values of a graph become, a part of them at a time: all at once are many times what a run needs."""

from collections.abc import Iterator, Sequence

import numpy as np
import onnx_ir as ir

from export.bounded.process import guarded
from export.mixed_precision.feeds import Feed
from export.mixed_precision.sessions import Session, session_of
from serving.runtime.base import Array

_PART_BYTES = 64 * 2**20


def largest_values(model: ir.Model, names: Sequence[str], samples: Sequence[Feed], label: str) -> dict[str, float]:
    """The largest magnitude of each value of a float32 graph; NaN where there is one.

    Raises:
        ArtefactError: ONNX Runtime cannot load or run the graph.
    """
    with guarded(f"ONNX Runtime to load {label} with its values as outputs"):
        session = session_of(model, names)
    largest = dict.fromkeys(names, 0.0)
    for sample in samples:
        for part in run_in_parts(session, names, sample, label):
            for name, array in part.items():
                largest[name] = float(np.maximum(largest[name], np.abs(array).max(initial=0.0)))
    return largest


def run_in_parts(session: Session, names: Sequence[str], feed: Feed, label: str) -> Iterator[dict[str, Array]]:
    """Run a graph as often as it takes to return all values of these names.

    Raises:
        ArtefactError: ONNX Runtime cannot run the graph.
    """
    at, count = 0, 1
    while at < len(names):
        part = names[at : at + count]
        with guarded(f"ONNX Runtime to run {label}"):
            found = session.run(part, feed)
        yield found
        at += count
        size = sum(array.nbytes for array in found.values()) / len(part)
        count = max(1, min(4 * count, int(_PART_BYTES / (size or 1))))
