"""One ONNX file → a file in a narrower precision within a budget of drift, held to its target's constraints.

read ─► run in float32 ─► search what must stay ─► write types ─► target's passes ─► write ─► run what was written
                                                                                       └────► constraints
"""

from contextlib import suppress
from pathlib import Path

import onnx_ir as ir

from attendant.errors import ArtefactError, AttendantError, ExportError
from attendant.signature import GraphSignature, TensorSpec
from export.bounded.process import guarded
from export.mixed_precision.drift import worst_drift
from export.mixed_precision.feeds import Feeds, feeds_for
from export.mixed_precision.forms import Reference, run_form, run_reference
from export.mixed_precision.half import DTYPES, to_half
from export.mixed_precision.integers import to_integers
from export.mixed_precision.outcome import Outcome
from export.mixed_precision.request import Request
from export.mixed_precision.source import graphs_of, opset_of, read_newer, read_source
from export.passes.openvino.part_convolutions import PartConvolutions
from export.passes.openvino.turn_weights import TurnWeights
from export.passes.tensorrt.passes import PASSES, TENSORRT
from export.targets.check import ConstraintCheck, validate
from export.targets.constraints.graph import Graph, type_word
from export.targets.targets import RuntimeTarget, target_named

LEAST_OPSET = {"fp16": 13, "bf16": 22, "int8": 13}
"""The versions of the standard with bfloat16 for Conv, and with one scale a channel."""
_OLDEST = 7
"""The oldest that ONNX Runtime runs."""
_OLDEST_TYPED = 9
"""The oldest that TensorRT reads, and that has Where, of which a simulation is made."""
_SAME = 1e-5
"""The drift up to which a graph of a newer opset is the same: kernels add in another order."""
_PASSES = {TENSORRT: PASSES, "openvino-cpu": (TurnWeights(), PartConvolutions())}
_LARGE = 2**30
"""Bytes of weights from which they stand in a file beside the graph, which ends at 2 GB."""


def convert_file(path: Path, out: Path, request: Request) -> Outcome:
    """Write a file in a narrower precision.

    Args:
        path: the file in float32.
        out: the file that is written, with its weights beside it if they are large.
        request: how.

    Raises:
        ArtefactError: the file is none that can be read and run.
        InputError: the inputs are none of this graph's.
        ExportError: nothing of it can be narrower, or the budget cannot be kept.
    """
    target = target_named(request.target_name)
    model = read_source(path)
    _require_opset(model, _OLDEST, path)
    feeds = feeds_for(model, request.calibration, request.samples, request.sizes)
    reference = run_reference(model, feeds.samples, str(path))
    model = _newer(path, model, LEAST_OPSET[request.precision], reference, feeds)
    before = _weight_bytes(model)
    if request.precision == "int8":
        typed = to_integers(model, feeds, reference, request.limit)
    else:
        dtype = DTYPES[request.precision]
        typed = to_half(model, dtype, feeds, reference, request.limit, target, request.narrow_io)
    passes = _run_passes(model, target)
    _write(model, out)
    found = run_form(read_source(out), reference, feeds.samples, str(out))
    drift = worst_drift(found, reference.measured_values())
    if (worst := max(drift.values())) > request.limit:
        raise ExportError(f"a drift of at most {request.limit:g}", f"{worst:.3g}", "give a larger --budget")
    return Outcome(
        source=str(path),
        out=out.name,
        precision=request.precision,
        target=target.name,
        opset=opset_of(model),
        typed=typed,
        budget=request.limit,
        drift=drift,
        samples=len(feeds.samples),
        feeds=feeds.source,
        nbytes=(before, _weight_bytes(model)),
        checks=_check(model, out, target),
        passes=passes,
    )


def _newer(path: Path, model: ir.Model, opset: int, reference: Reference, feeds: Feeds) -> ir.Model:
    newer = read_newer(path, opset) if opset_of(model) < opset else None
    if newer is not None:
        with suppress(AttendantError):  # converted wrongly: then the graph stays as it is
            found = run_form(newer.clone(), reference, feeds.samples, f"{path} in opset {opset}")
            if max(worst_drift(found, reference.measured_values()).values()) <= _SAME:
                return newer
    _require_opset(model, _OLDEST_TYPED, path)
    return model


def _require_opset(model: ir.Model, oldest: int, path: Path) -> None:
    if opset_of(model) < oldest:
        remedy = "export the model with a newer opset"
        raise ArtefactError(f"opset {oldest} or newer in {path}", str(opset_of(model)), remedy)


def _run_passes(model: ir.Model, target: RuntimeTarget) -> dict[str, int]:
    results = [rewrite(model) for rewrite in _PASSES.get(target.form or target.name, ())]
    return {one.name: one.fired for one in results if one.fired}  # type: ignore[attr-defined]


def _write(model: ir.Model, out: Path) -> None:
    large = _weight_bytes(model) >= _LARGE
    with guarded(f"onnx to write {out.name}"):
        if not large:
            ir.external_data.load_to_model(model)
        ir.save(model, out, external_data=f"{out.name}.data" if large else None)


def _weight_bytes(model: ir.Model) -> int:
    values = (value for graph in graphs_of(model) for value in graph.initializers.values())
    return sum(int(one.nbytes) for value in values if (one := value.const_value) is not None)


def _check(model: ir.Model, out: Path, target: RuntimeTarget) -> list[ConstraintCheck]:
    inputs, outputs = (tuple(map(_spec, values)) for values in (model.graph.inputs, model.graph.outputs))
    signature = GraphSignature(name=out.stem, inputs=inputs, outputs=outputs)
    with guarded(f"onnx to read {out.name}"):
        return validate(Graph(out, signature), target)


def _spec(value: ir.Value) -> TensorSpec:
    axes = tuple(axis if isinstance(axis, int) else str(axis.value) for axis in value.shape or ())
    word = type_word(0 if value.dtype is None else value.dtype.value)
    return TensorSpec(name=str(value.name), dtype=word, axes=axes)  # type: ignore[arg-type]
