"""An ONNX graph as constraints ask about it: every node, subgraphs included, and the type and axes of every tensor."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from attendant.errors import ArtefactError
from attendant.onnx_file import check_onnx_file
from attendant.signature import GraphSignature

Axes = tuple[int | str | None, ...]
QUANTIZERS = frozenset({"QuantizeLinear", "DequantizeLinear"})
_LARGE = 65_536
_WORDS: dict[int, str] = {TensorProto.FLOAT: "float32", TensorProto.DOUBLE: "float64"}


@dataclass(frozen=True, slots=True)
class Node:
    """One node.

    Attributes:
        proto: as the file holds it.
        inside: the operators of the nodes in whose subgraphs it stands, outermost first.
    """

    proto: NodeProto
    inside: tuple[str, ...] = ()

    @property
    def operator(self) -> str:
        """The operator's name, without its domain."""
        return str(self.proto.op_type)

    @property
    def label(self) -> str:
        """How messages name the node: by its name, or by its first output where it has none."""
        return f"{self.proto.name or next(iter(self.proto.output), '?')} ({self.operator})"

    def input(self, index: int) -> str:
        """The name of an input; empty where it is left out."""
        return str(self.proto.input[index]) if index < len(self.proto.input) else ""

    def output(self, index: int) -> str:
        """The name of an output; empty where it is left out."""
        return str(self.proto.output[index]) if index < len(self.proto.output) else ""

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute's value, text as ``str``."""
        for attribute in self.proto.attribute:
            if attribute.name == name:
                value = onnx.helper.get_attribute_value(attribute)
                return value.decode() if isinstance(value, bytes) else value
        return default


class Graph:
    """One graph of an artefact.

    Attributes:
        path: the file.
        signature: what the manifest says of it.
        opsets: domain → version.
        nodes: every node.
        inputs: the names of what is fed, initializers apart.
        outputs: the names of what comes out.
    """

    def __init__(self, path: Path, signature: GraphSignature, model: ModelProto | None = None) -> None:
        """Infer the type and axes of whatever a graph does not state.

        Args:
            path: its file.
            signature: what the manifest says of it.
            model: its content, external data apart, if that was read; changed.

        Raises:
            ArtefactError: the file is no ONNX graph, or one that nothing should open (:mod:`attendant.onnx_file`).
        """
        self.path, self.signature = path, signature
        try:
            if model is None:
                check_onnx_file(path)
                model = onnx.load(path, load_external_data=False)
            # Shapes and types follow from no weight, and inferring them copies the file: scales and zeros are needed.
            needed = {name for node in model.graph.node if node.op_type in QUANTIZERS for name in node.input[1:]}
            for tensor in model.graph.initializer:
                if len(tensor.raw_data) > _LARGE and tensor.name not in needed:
                    tensor.ClearField("raw_data")
                    tensor.data_location = TensorProto.EXTERNAL
            model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        except (OSError, DecodeError, ValueError, onnx.shape_inference.InferenceError) as error:
            raise ArtefactError(f"an ONNX graph at {path}", str(error), "export the model again") from error
        graph = model.graph
        self.ir_version = int(model.ir_version)
        self.opsets = {entry.domain: int(entry.version) for entry in model.opset_import}
        self.nodes = tuple(_nodes(graph, ()))
        scopes = list(_scopes(graph))
        self._constants = {tensor.name: tensor for scope in scopes for tensor in scope.initializer}
        self._constants |= {
            node.output(0): node.attribute("value")
            for node in self.nodes
            if node.operator == "Constant" and node.attribute("value") is not None
        }
        self._listed = {node.output(0): node for node in self.nodes if node.operator == "Constant"}
        self._types = {v.name: v.type.tensor_type for scope in scopes for v in _values(scope)}
        self.inputs = {value.name for value in graph.input} - self._constants.keys()
        self.outputs = {value.name for value in graph.output}

    def dtype(self, tensor: str) -> str:
        """The element type of a tensor in NumPy's words (``bfloat16``, ``int4`` …); empty where nothing tells."""
        if tensor in self._constants:
            return type_word(self._constants[tensor].data_type)
        return type_word(self._types[tensor].elem_type) if tensor in self._types else ""

    def axes(self, tensor: str) -> Axes | None:
        """A number for a fixed axis, a symbol for a varying one, None for an unnamed one; None without a rank."""
        if tensor in self._constants:
            return tuple(self._constants[tensor].dims)
        if tensor not in self._types or not self._types[tensor].HasField("shape"):
            return None
        dims = self._types[tensor].shape.dim
        return tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in dims)

    def is_constant(self, tensor: str) -> bool:
        """Whether a tensor is known before the graph runs: an initializer or a Constant."""
        return tensor in self._constants or tensor in self._listed

    def constant(self, tensor: str) -> NDArray[Any] | None:
        """The value of a constant; None where it is none, is a weight that was not kept, or lies in a missing file."""
        if tensor in self._constants:
            proto = self._constants[tensor]
            if proto.data_location != TensorProto.EXTERNAL:
                return onnx.numpy_helper.to_array(proto)
            beside = proto.external_data and all(
                (self.path.parent / name).is_file()
                for name in [entry.value for entry in proto.external_data if entry.key == "location"]
            )
            return onnx.numpy_helper.to_array(proto, str(self.path.parent)) if beside else None
        if tensor in self._listed:
            values = (onnx.helper.get_attribute_value(attribute) for attribute in self._listed[tensor].proto.attribute)
            return np.asarray(next(values))
        return None

    @property
    def initializers(self) -> dict[str, TensorProto]:
        """Every weight and constant tensor: name → as the file holds it."""
        return dict(self._constants)


def type_word(element_type: int) -> str:
    """An ONNX element type in NumPy's words."""
    if element_type == TensorProto.UNDEFINED:
        return ""
    return _WORDS.get(element_type, str(TensorProto.DataType.Name(element_type)).lower())


def _subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def _scopes(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for subgraph in _subgraphs(node):
            yield from _scopes(subgraph)


def _nodes(graph: GraphProto, inside: tuple[str, ...]) -> Iterator[Node]:
    for node in graph.node:
        yield Node(node, inside)
        for subgraph in _subgraphs(node):
            yield from _nodes(subgraph, (*inside, node.op_type))


def _values(graph: GraphProto) -> Iterator[onnx.ValueInfoProto]:
    yield from graph.input
    yield from graph.output
    yield from graph.value_info
