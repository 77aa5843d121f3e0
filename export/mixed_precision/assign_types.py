"""Write narrower types into a graph, with casts where a narrow node meets one that stays in float32.

    before    X ──► MatMul(W) ──► Exp ──► Mul(S)                               every number float32
    after     Cast(X) ──► MatMul(W') ──► Cast ──► Exp ──► Cast ──► Mul(S')     W', S' narrow; Exp in float32

Values keep their names, so that two forms of a graph can be compared value by value; a cast is named after its value. A
value is cast once for all who read it so, beside its producer. What enters and leaves a subgraph (If, Loop, Scan) is
float32. An operator that only moves numbers stays in float32 between two that do.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from export.mixed_precision.narrow_tensor import lost_number, narrow_tensor
from export.mixed_precision.operator_types import MOVING, Slots, is_wide
from export.mixed_precision.source import graphs_of

_WIDE = ir.DataType.FLOAT


@dataclass(frozen=True, slots=True)
class Assignment:
    """What became of a graph's operators.

    Attributes:
        narrow: nodes that compute in the narrower type.
        kept: nodes that stay in float32, and why.
    """

    narrow: tuple[ir.Node, ...]
    kept: Mapping[ir.Node, str]


def assign(
    model: ir.Model, dtype: ir.DataType, slots: Mapping[ir.Node, Slots], sensitive: Mapping[ir.Node, str]
) -> Assignment:
    """Decide for every node, without a change.

    Args:
        model: the graph in float32.
        dtype: FLOAT16 or BFLOAT16.
        slots: what of each node may be narrow.
        sensitive: nodes that shall stay in float32, and why.
    """
    narrow: list[ir.Node] = []
    kept: dict[ir.Node, str] = {}
    stay: set[ir.Node] = set()
    for node in model.graph.all_nodes():
        if node not in slots:
            continue
        reason = slots[node].reason or sensitive.get(node, "") or lost_constant(node, dtype)
        if reason:
            kept[node] = reason
            stay.add(node)
        elif node.op_type in MOVING and _all_wide(node, stay):
            stay.add(node)
        else:
            narrow.append(node)
    return Assignment(tuple(narrow), kept)


def lost_constant(node: ir.Node, dtype: ir.DataType) -> str:
    """Why a node cannot read its constants in a type; empty where it can."""
    tensors = [value.const_value for value in node.inputs if is_wide(value) and value is not None]
    lost = [number for one in tensors if one is not None and (number := lost_number(one, dtype)) is not None]
    return f"{dtype.name.lower()} has no number for its {lost[0]:g}" if lost else ""


def apply_types(
    model: ir.Model,
    dtype: ir.DataType,
    slots: Mapping[ir.Node, Slots],
    narrow: tuple[ir.Node, ...],
    narrow_io: bool = False,
) -> None:
    """Change a graph.

    Args:
        model: changed in place.
        dtype: FLOAT16 or BFLOAT16.
        slots: what of each node may be narrow.
        narrow: the nodes that become so.
        narrow_io: whether the graph's float32 inputs and outputs become so too.
    """
    typing = _Typing(model, dtype)
    if narrow_io:
        for value in filter(is_wide, model.graph.inputs):
            value.type = ir.TensorType(dtype)
    for node in narrow:
        for index in slots[node].outputs:
            node.outputs[index].type = ir.TensorType(dtype)
        _state_type(node, dtype, bool(slots[node].outputs))
    wanted = {node: set(slots[node].inputs) for node in narrow}
    for node in typing.nodes:
        for index, read in enumerate(node.inputs):
            if read is not None and read in typing.wide:
                node.replace_input_with(index, typing.read(read, dtype if index in wanted.get(node, ()) else _WIDE))
    for graph in graphs_of(model):
        typing.finish(graph, dtype if narrow_io and graph is model.graph else _WIDE)
    for graph in graphs_of(model):
        for value in [one for one in graph.initializers.values() if not one.uses() and not one.is_graph_output()]:
            del graph.initializers[str(value.name)]


class _Typing:
    def __init__(self, model: ir.Model, dtype: ir.DataType) -> None:
        self.dtype = dtype
        self.nodes = list(model.graph.all_nodes())
        self.wide: set[ir.Value] = set()
        self._names: set[str | None] = set()
        for graph in graphs_of(model):
            values = [*graph.inputs, *graph.initializers.values(), *(one for node in graph for one in node.outputs)]
            self.wide |= set(filter(is_wide, values))
            self._names |= {value.name for value in values}
        self._casts: dict[tuple[ir.Value, ir.DataType], ir.Value] = {}

    def read(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        """The value in a type."""
        if value.dtype == dtype:
            return value
        if (value, dtype) not in self._casts:
            constant = value.is_initializer() and value.const_value is not None
            self._casts[value, dtype] = self._constant(value) if constant else self._cast(value, dtype)
        return self._casts[value, dtype]

    def _constant(self, value: ir.Value) -> ir.Value:
        graph, tensor = value.graph, value.const_value
        assert isinstance(graph, ir.Graph) and tensor is not None
        name = self._unused(f"{value.name}.{self.dtype.name.lower()}")
        narrow = narrow_tensor(tensor, self.dtype, name)
        made = ir.Value(name=name, shape=value.shape, type=ir.TensorType(self.dtype), const_value=narrow)
        graph.register_initializer(made)
        return made

    def _cast(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        node, producer, graph = ir.node("Cast", [value], {"to": dtype.value}), value.producer(), value.graph
        (made,) = node.outputs
        made.name, made.shape, made.type = self._unused(f"{value.name}.{dtype.name.lower()}"), value.shape, None
        made.type = ir.TensorType(dtype)
        node.name = made.name
        assert isinstance(graph, ir.Graph)
        if producer is not None:
            graph.insert_after(producer, node)
        else:
            graph.insert_before(graph[0], node)
        return made

    def _unused(self, name: str) -> str:
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name

    def finish(self, graph: ir.Graph, dtype: ir.DataType) -> None:
        """Return every float32 output of a graph in a type, under its name."""
        for at, value in enumerate(graph.outputs):
            if value not in self.wide or value.dtype == dtype or value.dtype is None:
                continue
            if value.graph is not graph or value.is_graph_input():  # an outer value, or one that is handed through
                graph.outputs[at] = self._cast_in(graph, value, dtype)
                continue
            returned, name = self._cast_in(graph, value, dtype), value.name
            value.name, returned.name = self._unused(f"{name}.{value.dtype.name.lower()}"), name
            for other, same in enumerate(graph.outputs):
                if same is value:
                    graph.outputs[other] = returned

    def _cast_in(self, graph: ir.Graph, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        node = ir.node("Cast", [value], {"to": dtype.value})
        (made,) = node.outputs
        made.name, made.shape, made.type = f"{value.name}.returned", value.shape, ir.TensorType(dtype)
        graph.append(node)
        return made


def _state_type(node: ir.Node, dtype: ir.DataType, returns: bool) -> None:
    if node.op_type == "Cast" and returns:
        node.attributes["to"] = ir.AttrInt64("to", dtype.value)
    value = node.attributes.get("value")
    if node.op_type == "ConstantOfShape" and returns:
        tensor = ir.tensor([0.0], dtype=_WIDE) if value is None else value.as_tensor()
        node.attributes["value"] = ir.AttrTensor("value", narrow_tensor(tensor, dtype, ""))
    if node.op_type == "Attention" and "softmax_precision" not in node.attributes:
        node.attributes["softmax_precision"] = ir.AttrInt64("softmax_precision", _WIDE.value)


def _all_wide(node: ir.Node, stay: set[ir.Node]) -> bool:
    read = [value for value in node.inputs if is_wide(value) and value is not None and not value.is_initializer()]
    return bool(read) and all((producer := value.producer()) is not None and producer in stay for value in read)
