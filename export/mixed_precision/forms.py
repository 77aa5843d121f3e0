"""A typed graph run as it is written: every rounding of it, whatever kernels the runtime has for its types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from attendant.errors import ArtefactError, ExportError, InputError
from export.bounded.process import guarded
from export.mixed_precision.feeds import Feed
from export.mixed_precision.selections import cut_selections, selected_names
from export.mixed_precision.sessions import Session, session_of
from export.passes.quantise.widen_arithmetic import WidenArithmetic
from export.passes.tensorrt.allow_decomposition import without_decomposition
from serving.runtime.base import Array

_NARROW = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


@dataclass(frozen=True, slots=True)
class Reference:
    """What the float32 graph computes.

    Attributes:
        measured: names of what other forms are held to.
        fed: names of what was chosen, which other forms are fed.
        values: both, in each sample.
    """

    measured: list[str]
    fed: list[str]
    values: list[dict[str, Array]]

    def feeds(self, samples: Sequence[Feed]) -> list[Feed]:
        """The samples, with what was chosen."""
        return [
            {**one, **{name: got[name] for name in self.fed}} for one, got in zip(samples, self.values, strict=True)
        ]

    def measured_values(self) -> list[dict[str, Array]]:
        """What other forms are held to, in each sample."""
        return [{name: one[name] for name in self.measured} for one in self.values]


def run_reference(model: ir.Model, samples: Sequence[Feed], label: str) -> Reference:
    """Run a float32 graph.

    Raises:
        ArtefactError: ONNX Runtime cannot, or it returns nothing that is measured.
        InputError: a measured value has no finite number in a sample: nothing of it could be compared.
    """
    measured, fed = selected_names(model)
    if not measured:
        remedy = "nothing of it can be measured: give a graph that computes in float32"
        raise ArtefactError(f"outputs of {label} that are made of float32 values", "none", remedy)
    with guarded(f"ONNX Runtime to load {label}"):
        session = session_of(model, [*measured, *fed])
    values = []
    for sample in samples:
        with guarded(f"ONNX Runtime to run {label}"):
            values.append(session.run([*dict.fromkeys([*measured, *fed])], sample))
        _require_finite({name: values[-1][name] for name in measured}, len(values), label)
    return Reference(measured, fed, values)


def _require_finite(values: Mapping[str, Array], number: int, label: str) -> None:
    for name, array in values.items():
        if array.dtype.kind == "f" and array.size and not np.isfinite(array).any():
            remedy = "give inputs that the model is made for with --calibration"
            raise InputError(f"a finite number in {name!r} of {label}", f"none in sample {number}", remedy)


def load_form(model: ir.Model, names: Sequence[str], fed: Sequence[str], label: str) -> Session:
    """Load a graph of any type, to be run in float32 and rounded wherever it rounds; changed in place.

    Args:
        model: the graph.
        names: of the values that it shall return.
        fed: names of what was chosen, which it is fed.
        label: what messages call it.

    Raises:
        ArtefactError: ONNX Runtime cannot.
    """
    without_decomposition(model)
    for dtype in _NARROW:
        WidenArithmetic(dtype)(model)
    _return_wide(model, names)
    model.graph.sort()
    cut_selections(model, fed)
    with guarded(f"ONNX Runtime to load {label}"):
        return session_of(model, names, optimise=False)


def _return_wide(model: ir.Model, names: Sequence[str]) -> None:
    # NumPy has no bfloat16: such a value is returned as float32, under its name.
    wanted = set(names)
    for value in [value for node in model.graph for value in node.outputs]:
        if value.name in wanted and value.dtype == ir.DataType.BFLOAT16:
            cast = ir.node("Cast", [value], {"to": ir.DataType.FLOAT.value})
            value.name, cast.outputs[0].name = f"{value.name}.bfloat16", value.name
            cast.outputs[0].type, cast.outputs[0].shape = ir.TensorType(ir.DataType.FLOAT), value.shape
            model.graph.append(cast)


def run_form(model: ir.Model, reference: Reference, samples: Sequence[Feed], label: str) -> list[dict[str, Array]]:
    """The measured values of a graph of any type, in each sample.

    Raises:
        ArtefactError: ONNX Runtime cannot load or run it.
        ExportError: a value of the reference has no counterpart.
    """
    session = load_form(model, reference.measured, reference.fed, label)
    missing = set(reference.measured) - {one.name for one in session.get_outputs()}
    if missing:
        raise ExportError(f"the values {sorted(missing)} in {label}", "none of these names", "report this graph")
    found = []
    for sample in reference.feeds(samples):
        with guarded(f"ONNX Runtime to run {label}"):
            found.append(session.run(reference.measured, sample))
    return found
