"""One module to one ONNX graph of standard operators, opset 24, whose varying axes vary.

Source: ONNX operator specification, opset 24 (Attention, TensorScatter).
"""

import logging
import re
import warnings
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import cache
from typing import Any

import onnx_ir as ir
import torch
from torch.onnx._internal.exporter._registration import ONNXRegistry

from attendant.errors import ExportError
from attendant.signature import Axis
from export.graph.axes import axes_of
from export.graph.exported_graph import ExportedGraph, require_signature, require_standard
from export.graph.sample_inputs import sample_inputs
from export.graph.translations import OPSET, TRANSLATIONS, measure_behind_casts
from export.graph.weights import optimize
from models.task_graph import TaskGraph

_TRACING_SIZES = {"batch": 2, "source": 5, "tokens": 5, "steps": 3, "attended": 4, "scored": 2}


def onnx_from_torch(graph: TaskGraph) -> ExportedGraph:
    """Export a module, and check the graph against its signature and the standard.

    Args:
        graph: the module and the signature it must keep.

    Raises:
        ExportError: the exporter does not know an operator, froze an axis, renamed a tensor, or used one outside the
            standard.
    """
    signature, axes = graph.signature, axes_of(graph)
    inputs = sample_inputs(signature, tracing_sizes(graph))
    logging.getLogger("onnxscript.optimizer").setLevel(logging.ERROR)  # it tells of all that it cannot fold
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the exporter warns of its own deprecated internals
        try:
            program = torch.onnx.export(
                graph.module.eval(),
                tuple(inputs.values()),
                dynamo=True,
                opset_version=OPSET,
                input_names=list(inputs),
                output_names=[spec.name for spec in signature.outputs],
                dynamic_shapes=_dynamic_shapes(graph, axes),
                custom_translation_table=TRANSLATIONS,
                verbose=False,
                optimize=False,  # see export/graph/weights.py
            )
        except torch.onnx.OnnxExporterError as error:
            raise _untranslated(error) from error
    assert program is not None
    origins = optimize(program.model)
    measure_behind_casts(program.model)
    _name_returned_inputs(program.model.graph, list(inputs))
    for value, spec in zip(program.model.graph.outputs, signature.outputs, strict=True):
        value.name = spec.name  # the exporter gives one value that is returned twice its last name
        _name_axes(value, {index: axis for index, axis in enumerate(spec.axes) if axis not in signature.symbols()})
    require_signature(program.model, signature)
    require_standard(program.model)
    return ExportedGraph(model=program.model, signature=replace(signature, axes=axes), origins=origins)


def _name_returned_inputs(graph: ir.Graph, names: list[str]) -> None:
    # An output that is an input as it came is a copy of it, for which the exporter calls the input y_orig.
    called = {f"{value.name}_orig" for value in graph.outputs}
    for value, name in zip(graph.inputs, names, strict=True):
        if value.name in called:
            value.name = name


def _untranslated(error: Exception) -> ExportError:
    # The exporter's own text is a page, with advice to its developers; what failed stands at the end of its causes.
    operator, cause = re.search(r"target=torch\.ops\.([\w.]+)", str(error)), error.__cause__ or error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    expected = f"{operator[1] if operator else 'forward()'}, translated to ONNX"
    remedy = "write it in forward() by operators of PyTorch that its ONNX exporter knows"
    return ExportError(expected, str(cause).partition("\n")[0].partition(". Failure message")[0][:300], remedy)


def tracing_sizes(graph: TaskGraph) -> dict[str, int]:
    """A size for each varying axis: all different, and none 0 or 1, which torch.export would freeze."""
    others = [symbol for symbol in graph.largest if symbol not in _TRACING_SIZES]
    wanted = {symbol: max(6 + n, (2 + n) * graph.smallest.get(symbol, 1)) for n, symbol in enumerate(others)}
    return {**_TRACING_SIZES, **{symbol: min(graph.largest[symbol], size) for symbol, size in wanted.items()}}


def _name_axes(value: ir.Value, names: Mapping[int, str | int]) -> None:
    # The exporter calls an axis that no input has by the formula of its size.
    shape = ir.Shape(()) if value.shape is None else value.shape.copy()
    for index, size in enumerate(shape):
        name = names.get(index)
        if isinstance(name, str) and isinstance(size, ir.SymbolicDim) and size.value:
            shape[index] = name
    value.shape = shape


def _dynamic_shapes(graph: TaskGraph, axes: dict[str, Axis]) -> tuple[Any, ...]:
    symbols = {
        name: torch.export.Dim(name, min=axis.min if axis.min > 1 else None, max=axis.max)
        for name, axis in axes.items()
    }
    shapes = [
        {index: symbols[axis] for index, axis in enumerate(spec.axes) if isinstance(axis, str)}
        for spec in graph.signature.inputs
    ]
    named = graph.module.forward.__code__.co_argcount - 1
    starred = bool(graph.module.forward.__code__.co_flags & 0x04)
    return (*shapes[:named], tuple(shapes[named:])) if starred else tuple(shapes)


_from_torchlib = ONNXRegistry.from_torchlib


@cache
def read_translations(opset_version: int = OPSET) -> ONNXRegistry:
    """What torch translates to ONNX: for each graph torch 2.13 would parse the source of all 500 again, in a second."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it tells of torchvision's absence
    return _from_torchlib(opset_version)


def _copied_translations(opset_version: int = OPSET) -> ONNXRegistry:
    registry = copy(read_translations(opset_version))
    registry.functions = {target: list(found) for target, found in registry.functions.items()}  # an export adds its own
    return registry


ONNXRegistry.from_torchlib = staticmethod(_copied_translations)  # type: ignore[method-assign]
