"""One module to one ONNX graph of standard operators, opset 24, whose varying axes vary.

Source: ONNX operator specification, opset 24 (Attention, TensorScatter).
"""

from __future__ import annotations

import json
import logging
import warnings
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import torch

from attendant.errors import ExportError
from attendant.signature import Axis, GraphSignature
from export.graph.axes import axes_of
from export.graph.outcome import OURS
from export.graph.sample_inputs import sample_inputs
from export.graph.translations import OPSET, TRANSLATIONS, measure_behind_casts
from export.graph.weights import Origins, optimize
from models.task_graph import TaskGraph

STANDARD_DOMAINS = {"", "ai.onnx"}
ORIGINS = "attendant.weights"
"""The entry of a file's metadata that says which parameters each of its weights was computed from."""
LARGE = 32 * 2**20
"""Bytes of weights from which they stand in a file of their own, which a lowered graph shares; a graph ends at 2 GB."""
_TRACING_SIZES = {"batch": 2, "source": 5, "tokens": 5, "steps": 3, "attended": 4, "scored": 2}


def onnx_from_torch(graph: TaskGraph, path: Path) -> None:
    """Export a module, check the graph against the standard, and write it.

    Args:
        graph: the module and the signature it must keep.
        path: the file to write.

    Raises:
        ExportError: the exporter froze an axis, renamed a tensor, or used an operator outside the standard.
    """
    signature = graph.signature
    inputs = sample_inputs(signature, tracing_sizes(graph))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the exporter warns of its own deprecated internals,
        for talkative in ("torch.onnx", "onnxscript.optimizer"):  # and of torchvision's absence, of what it cannot fold
            logging.getLogger(talkative).setLevel(logging.ERROR)
        program = torch.onnx.export(
            graph.module.eval(),
            tuple(inputs.values()),
            dynamo=True,
            opset_version=OPSET,
            input_names=list(inputs),
            output_names=[spec.name for spec in signature.outputs],
            dynamic_shapes=_dynamic_shapes(graph, axes_of(graph)),
            custom_translation_table=TRANSLATIONS,
            verbose=False,
            optimize=False,  # see export/graph/weights.py
        )
    assert program is not None
    origins = optimize(program.model)
    measure_behind_casts(program.model)
    for value, spec in zip(program.model.graph.outputs, signature.outputs, strict=True):
        value.name = spec.name  # the exporter gives one value that is returned twice its last name
    save_graph(program.model, path, signature, origins)
    check_graph(path, signature)


def tracing_sizes(graph: TaskGraph) -> dict[str, int]:
    """A size for each varying axis: all different, and none 0 or 1, which torch.export would freeze."""
    others = [symbol for symbol in graph.largest if symbol not in _TRACING_SIZES]
    wanted = {symbol: max(6 + n, (2 + n) * graph.smallest.get(symbol, 1)) for n, symbol in enumerate(others)}
    return {**_TRACING_SIZES, **{symbol: min(graph.largest[symbol], size) for symbol, size in wanted.items()}}


def check_graph(path: Path, signature: GraphSignature) -> None:
    """Read a written graph back and hold it to its signature and to the standard.

    Raises:
        ExportError: a name, type or axis differs, or an operator is not of the standard's domain.
    """
    onnx.checker.check_model(path, full_check=True)
    model = onnx.load(path, load_external_data=False)
    foreign = sorted({node.domain for node in model.graph.node} - STANDARD_DOMAINS)
    if foreign or model.functions:
        raise ExportError("standard operators only", f"domains {foreign} in {path}", "lower them in a pass")
    wanted = [(spec.name, spec.dtype, spec.axes) for spec in (*signature.inputs, *signature.outputs)]
    found = [_described(value) for value in (*model.graph.input, *model.graph.output)]
    for want, have in zip(wanted, found, strict=False):
        if want != have:
            raise ExportError(f"{want} in {path.name}", f"{have}", _frozen_hint(want[2], have[2]))
    if len(wanted) != len(found):
        raise ExportError(f"{len(wanted)} inputs and outputs in {path.name}", str(len(found)), "export it again")


def origins_of(path: Path) -> Origins:
    """Which parameters each weight of a written graph was computed from."""
    properties = {entry.key: entry.value for entry in onnx.load(path, load_external_data=False).metadata_props}
    origins: Origins = json.loads(properties.get(ORIGINS, "{}"))
    return origins


def save_graph(model: ir.Model, path: Path, signature: GraphSignature, origins: Origins) -> None:
    """Write a graph, large weights in a file beside it, and where each of its weights comes from."""
    weights = sum(tensor.nbytes for value in model.graph.initializers.values() if (tensor := value.const_value))
    ir.save(model, path, external_data=f"{path.name}.data" if weights >= LARGE else None)
    written = onnx.load(path, load_external_data=False)
    _strip_metadata(written)
    _name_made_axes(written, signature)
    onnx.helper.set_model_props(written, {ORIGINS: json.dumps(origins)})
    onnx.save(written, path)


def _strip_metadata(model: onnx.ModelProto) -> None:
    # The exporter records the stack trace of every node: larger than small models, and full of machine paths.
    del model.metadata_props[:]
    del model.graph.metadata_props[:]
    parts: list[Any] = [*model.graph.node, *model.graph.value_info, *model.graph.initializer]
    for part in parts:
        ours = [entry for entry in part.metadata_props if entry.key.startswith(OURS)]
        del part.metadata_props[:]
        part.metadata_props.extend(ours)
        part.doc_string = ""


def _name_made_axes(model: onnx.ModelProto, signature: GraphSignature) -> None:
    # The exporter calls an axis that no input has by the formula of its size.
    given = set(signature.symbols())
    for spec, value in zip(signature.outputs, model.graph.output, strict=False):
        for axis, dim in zip(spec.axes, value.type.tensor_type.shape.dim, strict=False):
            if isinstance(axis, str) and axis not in given and dim.dim_param:
                dim.dim_param = axis


def _frozen_hint(wanted: tuple[Any, ...], found: tuple[Any, ...]) -> str:
    pairs = zip(wanted, found, strict=False)
    frozen = [want for want, have in pairs if isinstance(want, str) and isinstance(have, int)]
    if frozen:
        return f"the exporter froze {frozen}: write the model so that no Python number depends on these sizes"
    return "make the module's inputs and outputs follow its signature"


def _described(value: onnx.ValueInfoProto) -> tuple[str, str, tuple[Any, ...]]:
    tensor = value.type.tensor_type
    axes = tuple(dim.dim_param or dim.dim_value for dim in tensor.shape.dim)
    return value.name, onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name, axes


def _dynamic_shapes(graph: TaskGraph, axes: dict[str, Axis]) -> tuple[Any, ...]:
    symbols = {
        name: torch.export.Dim(name, min=axis.smallest if axis.smallest > 1 else None, max=axis.largest)
        for name, axis in axes.items()
    }
    shapes = [
        {index: symbols[axis] for index, axis in enumerate(spec.axes) if isinstance(axis, str)}
        for spec in graph.signature.inputs
    ]
    named = graph.module.forward.__code__.co_argcount - 1
    starred = bool(graph.module.forward.__code__.co_flags & 0x04)
    return (*shapes[:named], tuple(shapes[named:])) if starred else tuple(shapes)
