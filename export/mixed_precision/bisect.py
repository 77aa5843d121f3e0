"""The first node whose output drifts between two ONNX files, or between a file and its own narrower precision.

Values are compared by their names, in the order of the first graph; in both graphs what was chosen (TopK, NMS) is the
first one's (:mod:`export.mixed_precision.selections`). Values of subgraphs are not compared: their node's outputs are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from attendant.errors import InputError
from export.bounded.process import guarded
from export.mixed_precision.drift import drift_of
from export.mixed_precision.feeds import Feed, feeds_for
from export.mixed_precision.forms import Reference, load_form
from export.mixed_precision.half import DTYPES, to_half
from export.mixed_precision.ranges import run_in_parts
from export.mixed_precision.request import Request
from export.mixed_precision.selections import selected_names
from export.mixed_precision.sessions import Session
from export.mixed_precision.source import label_of, read_source
from serving.runtime.base import Array

_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueDrift:
    """One value of both graphs.

    Attributes:
        value: its name.
        node: what computes it in the first graph.
        operator: likewise.
        drift: of the worst sample.
        largest: its largest magnitude in the first graph.
        passed_on: whether it drifts beyond the tolerance, and every value after it on some way to an output does.
    """

    value: str
    node: str
    operator: str
    drift: float
    largest: float
    passed_on: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisection:
    """Two graphs, value by value.

    Attributes:
        first: the file.
        second: the other, or the precision.
        tolerance: the drift from which a value counts.
        feeds: where inputs come from.
        values: in the order of the first graph.
        unmatched: how many values of the first graph the second has not.
    """

    first: str
    second: str
    tolerance: float
    feeds: str
    values: tuple[ValueDrift, ...]
    unmatched: int

    @property
    def culprit(self) -> ValueDrift | None:
        """The first value whose drift reaches an output; none where no output drifts."""
        return next((one for one in self.values if one.passed_on), None)

    @property
    def worst(self) -> ValueDrift:
        """The value that drifts most."""
        return max(self.values, key=lambda one: one.drift)

    def to_json(self) -> dict[str, Any]:
        """The bisection as plain JSON values."""
        found = self.culprit
        return {**asdict(self), "culprit": None if found is None else asdict(found)}


def bisect_files(first: Path, second: Path | None, request: Request, tolerance: float) -> Bisection:
    """Compare two graphs value by value.

    Args:
        first: a file.
        second: another with the same inputs; if not given, the first in the request's precision, with nothing kept in
            float32 for its sensitivity.
        request: inputs, and the precision.
        tolerance: the drift from which a value counts.

    Raises:
        ArtefactError: a file is none that can be read and run.
        InputError: the graphs have other inputs, or no value of one name.
    """
    source = read_source(first)
    feeds = feeds_for(source, request.calibration, request.samples, request.sizes)
    other = read_source(second) if second is not None else _narrowed(source, request)
    _require_same_inputs(source, other)
    order = [value for node in source.graph for value in node.outputs if value.dtype in _FLOATS]
    theirs = {value.name for node in other.graph for value in node.outputs if value.dtype in _FLOATS}
    makers = {str(value.name): value.producer() for value in order}
    names = [name for name in makers if name in theirs]
    if not names:
        raise InputError("values of one name in both graphs", "none", "compare files that one tool made of one model")
    _, fed = selected_names(source)
    fed = [name for name in fed if name in {value.name for node in other.graph for value in node.outputs}]
    labels = str(first), request.precision if second is None else str(second)
    sessions = load_form(source.clone(), [*names, *fed], (), labels[0]), load_form(other, names, fed, labels[1])
    drifts = dict.fromkeys(names, 0.0)
    largest = dict.fromkeys(names, 0.0)
    for sample in feeds.samples:
        for name, old, new in _pairs(sessions, labels, names, fed, sample):
            drifts[name] = max(drifts[name], drift_of(new, old))
            finite = old[np.isfinite(old)]
            largest[name] = max(largest[name], float(np.abs(finite).max(initial=0.0)))
    passed_on = _passed_on(source, {name for name in names if drifts[name] > tolerance}, set(names))
    values = tuple(
        ValueDrift(
            value=name,
            node=label_of(node) if (node := makers[name]) is not None else "",
            operator=node.op_type if node is not None else "",
            drift=drifts[name],
            largest=largest[name],
            passed_on=name in passed_on,
        )
        for name in names
    )
    return Bisection(
        first=labels[0],
        second=labels[1],
        tolerance=tolerance,
        feeds=feeds.source,
        values=values,
        unmatched=len(makers) - len(names),
    )


def _passed_on(model: ir.Model, drifting: set[str], compared: set[str]) -> set[str]:
    # Backwards from the outputs; values that are not compared, as integers, hand drift on.
    waiting, found, seen = list(model.graph.outputs), set[str](), set[ir.Value]()
    while waiting:
        value = waiting.pop()
        node = value.producer()
        if value in seen or node is None or (value.name in compared and value.name not in drifting):
            continue
        seen.add(value)
        if value.name in drifting:
            found.add(str(value.name))
        waiting += [one for one in node.inputs if one is not None]
    return found


def _narrowed(source: ir.Model, request: Request) -> ir.Model:
    if request.precision not in DTYPES:
        raise InputError("fp16 or bf16", request.precision, "convert the file, and compare the two files")
    copy = source.clone()
    measured, fed = selected_names(copy)
    feeds = feeds_for(copy, request.calibration, request.samples, request.sizes)
    to_half(copy, DTYPES[request.precision], feeds, Reference(measured, fed, []), None)
    return copy


def _require_same_inputs(one: ir.Model, other: ir.Model) -> None:
    first, second = (sorted(str(value.name) for value in model.graph.inputs) for model in (one, other))
    if first != second:
        raise InputError(f"the inputs {first} in both graphs", str(second), "compare two forms of one graph")


def _pairs(
    sessions: tuple[Session, Session], labels: tuple[str, str], names: Sequence[str], fed: Sequence[str], sample: Feed
) -> Iterator[tuple[str, Array, Array]]:
    with guarded(f"ONNX Runtime to run {labels[0]}"):
        chosen = sessions[0].run(fed, sample) if fed else {}
    first = (pair for part in run_in_parts(sessions[0], names, sample, labels[0]) for pair in part.items())
    second = (
        pair for part in run_in_parts(sessions[1], names, {**sample, **chosen}, labels[1]) for pair in part.items()
    )
    for (name, old), (_, new) in zip(first, second, strict=True):
        yield name, _as_float(old), _as_float(new)


def _as_float(array: Array) -> Array:
    return array if array.dtype == np.float64 else array.astype(np.float32)
