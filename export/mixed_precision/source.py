"""An ONNX file of others, read within bounds: every constant an initializer, every value of a known type."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import onnx
import onnx_ir as ir
from onnx_ir.passes.common import LiftConstantsToInitializersPass, RemoveInitializersFromInputsPass

from attendant.errors import ArtefactError, InputError
from attendant.onnx_file import weights_beside
from export.bounded.process import guarded
from export.mixed_precision.sessions import session_of

_IR_VERSION = 10
"""Of files that are written: constants need not be inputs from 4 on; opset 22 comes with 10."""
_NOT_OURS = "write the file again with the tool that made it"


def read_source(path: Path) -> ir.Model:
    """Read a file; its weights outside of it lie in its folder.

    Raises:
        ArtefactError: it is no ONNX file, one that nothing should open (:mod:`attendant.onnx_file`), takes weights from
            elsewhere, or has a value that nothing gives, or whose type neither onnx nor ONNX Runtime knows.
    """
    if not path.is_file():
        raise InputError("an ONNX file", f"none at {path}", "correct the path")
    weights_beside(path)
    with guarded(f"onnx to read {path}"):
        return _prepare(onnx.load(path, load_external_data=False), path)


def read_newer(path: Path, opset: int) -> ir.Model | None:
    """The same file with operators of a newer version of the standard; none where onnx cannot convert it.

    Whoever asks has to compare both: the converter errs (a PRelu of opset 6 comes out with a slope of another shape).
    """
    proto = onnx.load(path, load_external_data=False)
    nested = any(attribute.HasField("g") for node in proto.graph.node for attribute in node.attribute)
    outside = any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in proto.graph.initializer)
    if nested or outside:  # the converter looks into no subgraph, and at no external data
        return None
    proto.ir_version = max(proto.ir_version, _IR_VERSION)
    with suppress(Exception):  # it raises what C++ raises
        return _prepare(onnx.version_converter.convert_version(proto, opset), path)
    return None


def _prepare(proto: onnx.ModelProto, path: Path) -> ir.Model:
    model = ir.from_proto(onnx.shape_inference.infer_shapes(proto, data_prop=True))
    model.ir_version = max(model.ir_version, _IR_VERSION)
    ir.external_data.set_base_dir(model.graph, path.parent)
    RemoveInitializersFromInputsPass()(model)
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    _read_constants_directly(model)
    model.graph.sort()
    read = [value for node in model.graph.all_nodes() for value in node.inputs if value is not None]
    for value in (*read, *(value for graph in graphs_of(model) for value in graph.outputs)):
        if value.producer() is None and not (value.is_graph_input() or value.is_initializer()):
            raise ArtefactError(f"{value.name!r} of {path} as an input, a weight or an output", "none", _NOT_OURS)
    _require_types(model, path)
    return model


def _read_constants_directly(model: ir.Model) -> None:
    # torch's exporter stores equal weights once, and hands them out through Identity.
    for node in [node for node in model.graph if node.op_type == "Identity"]:
        (read,), (made,) = node.inputs, node.outputs
        if read is not None and read.is_initializer() and not made.is_graph_output():
            made.replace_all_uses_with(read)
            model.graph.remove(node, safe=True)


def opset_of(model: ir.Model) -> int:
    """The version of the standard's operators."""
    return int(model.opset_imports.get("", model.opset_imports.get("ai.onnx", 1)))


def graphs_of(model: ir.Model) -> Iterator[ir.Graph]:
    """The graph, and those within its nodes."""
    yield model.graph
    yield from model.graph.subgraphs()


def label_of(node: ir.Node) -> str:
    """How messages call a node: by its name, or by its first output."""
    return node.name or next((str(one.name) for one in node.outputs if one.name), node.op_type)


def _require_types(model: ir.Model, path: Path) -> None:
    nodes = list(model.graph.all_nodes())
    unknown = [value for node in nodes for value in node.outputs if value.name and value.type is None]
    if not unknown:
        return
    outer = [str(value.name) for value in unknown if value.graph is model.graph]
    try:
        told = {one.name: one.type for one in session_of(model, outer).get_outputs()}
    except Exception as error:  # of an operator that it has not
        raise _untyped(unknown[0], path) from error
    for value in unknown:
        word = told.get(value.name, "")
        if not word.startswith("tensor("):
            raise _untyped(value, path)
        value.type = ir.TensorType(_TYPES[word])


def _untyped(value: ir.Value, path: Path) -> ArtefactError:
    node = value.producer()
    found = f"{value.name} of {node.domain or 'ai.onnx'}.{node.op_type}" if node else str(value.name)
    remedy = "state its type in the file's value_info, or cut the graph there"
    return ArtefactError(f"a type for every value of {path}", f"none for {found}", remedy)


_TYPES = {
    f"tensor({name})": dtype
    for name, dtype in {
        "float": ir.DataType.FLOAT,
        "float16": ir.DataType.FLOAT16,
        "bfloat16": ir.DataType.BFLOAT16,
        "double": ir.DataType.DOUBLE,
        "int64": ir.DataType.INT64,
        "int32": ir.DataType.INT32,
        "int8": ir.DataType.INT8,
        "uint8": ir.DataType.UINT8,
        "bool": ir.DataType.BOOL,
        "string": ir.DataType.STRING,
    }.items()
}
