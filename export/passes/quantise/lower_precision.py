"""Store weights and compute activations in a narrower floating-point type, sensitive operators apart.

    before    X ──► MatMul(W) ──► Exp ──► Mul(S)                    every number float32
    after     Cast(X) ──► MatMul(W') ──► Cast ──► Exp ──► Cast ──► Mul(S')     W', S' narrow; Exp in float32

A value is cast once for all who read it so. An operator that only moves numbers stays in float32 between two that are
kept. A constant that the narrower type has no number for (an epsilon of 10⁻¹², which would become 0) keeps its reader.
Inputs and outputs of the graph keep their type, but for those named.

Source: ONNX operator specification, opset 24; LayerNormalization and RMSNormalization compute their statistics in
float32 whatever their inputs are (``stash_type``).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from export.graph.rewrite import Rewrite, RewriteResult, require_no_subgraphs

Sensitive = Callable[[ir.Graph], Mapping[ir.Node, str]]
"""Which operators of a graph are to stay in float32, and why."""

_WIDE = ir.DataType.FLOAT
_SMALL = 64
"""Numbers up to which a constant is stored once for each type that it is read in, and looked at for tiny numbers."""
_MOVING = frozenset(
    {
        "Concat",
        "Expand",
        "Flatten",
        "Gather",
        "GatherElements",
        "Identity",
        "Pad",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
        "Where",
    }
)
_BOUNDARY = "Cast"


@dataclass(frozen=True)
class LowerPrecision(Rewrite):
    """Turn every float32 number of a graph into a narrower one, but those of sensitive operators.

    Attributes:
        dtype: FLOAT16 or BFLOAT16.
        narrow: the names of the inputs and outputs that have that type too.
        sensitive: which operators stay.
    """

    dtype: ir.DataType
    narrow: Collection[str]
    sensitive: Sensitive

    def requires(self, model: ir.Model) -> None:
        require_no_subgraphs(model)

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        ShapeInferencePass()(result.model)
        work = _Work(graph, self.dtype, self.sensitive)
        if not work.narrowed:
            return
        work.declare(self.narrow)
        for node in list(graph):
            work.convert(node)
        work.finish()
        result.fired = len(work.narrowed)
        result.kept += [f"{node.outputs[0].name} ({node.op_type}): {why}" for node, why in work.kept.items()]


class _Work:
    def __init__(self, graph: ir.Graph, dtype: ir.DataType, sensitive: Sensitive) -> None:
        self.graph, self.dtype = graph, dtype
        self.outputs = {value: value.dtype for value in graph.outputs}
        self.kept: dict[ir.Node, str] = {}
        self.narrowed: list[ir.Node] = []
        self._casts: dict[tuple[ir.Value, ir.DataType], ir.Value] = {}
        reasons = sensitive(graph)
        for node in graph:
            self._decide(node, reasons.get(node, "") or self._unrepresentable(node))

    def _decide(self, node: ir.Node, reason: str) -> None:
        if not _computes_float(node) or self._is_boundary(node):
            return
        if reason:
            self.kept[node] = reason
        elif not self._stays_between(node):
            self.narrowed.append(node)

    def _is_boundary(self, node: ir.Node) -> bool:
        return node.op_type == _BOUNDARY and self.dtype in {
            value.dtype for value in (*node.inputs, *node.outputs) if value
        }

    def _stays_between(self, node: ir.Node) -> bool:
        read = [value for value in _floats(node.inputs) if not _is_constant(value)]
        wide = all((producer := value.producer()) is not None and self._is_wide(producer) for value in read)
        return node.op_type in _MOVING and bool(read) and wide

    def _is_wide(self, node: ir.Node) -> bool:
        return node in self.kept or (_computes_float(node) and node not in self.narrowed)

    def _unrepresentable(self, node: ir.Node) -> str:
        single = (value for value in _floats(node.inputs) if _is_constant(value) and _count(value) == 1)
        lost = [number for value in single for number in _numbers(value) if _is_lost(number, self.dtype)]
        return f"{self.dtype.name.lower()} has no number for its {lost[0]:g}" if lost else ""

    def declare(self, narrow: Collection[str]) -> None:
        for value in self.graph.inputs:
            if value.name in narrow:
                value.dtype = self.dtype
        self.outputs = {value: self.dtype if value.name in narrow else dtype for value, dtype in self.outputs.items()}

    def convert(self, node: ir.Node) -> None:
        if not _computes_float(node) or self._is_boundary(node):
            return
        dtype = _WIDE if self._is_wide(node) else self.dtype
        for at, value in enumerate(node.inputs):
            if value is not None and value.dtype in (_WIDE, self.dtype):
                node.replace_input_with(at, self._as(value, dtype))
        for value in node.outputs:
            if value.dtype == _WIDE:
                value.dtype = dtype
        self._retype_attributes(node, dtype)

    def _retype_attributes(self, node: ir.Node, dtype: ir.DataType) -> None:
        if node.op_type == "Cast" and node.attributes.get_int("to") == _WIDE.value:
            node.attributes["to"] = ir.AttrInt64("to", dtype.value)
        value = node.attributes.get("value")
        if node.op_type == "ConstantOfShape" and value is not None:
            node.attributes["value"] = ir.AttrTensor("value", _narrow_tensor(value.as_tensor(), dtype, ""))
        if node.op_type == "Attention" and dtype != _WIDE:
            node.attributes["softmax_precision"] = ir.AttrInt64("softmax_precision", _WIDE.value)

    def _as(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        if _is_constant(value):
            return self._constant(value, dtype)
        if value.dtype == dtype:
            return value
        if (value, dtype) not in self._casts:
            self._casts[value, dtype] = self._cast(value, dtype)
        return self._casts[value, dtype]

    def _cast(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        node = ir.node("Cast", [value], {"to": dtype.value})
        (out,) = node.outputs
        out.name, out.dtype, out.shape = f"{value.name}.{dtype.name.lower()}", dtype, value.shape
        self.graph.append(node)
        return out

    def _constant(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        if value.dtype == dtype:
            return value
        readers = {user for user, _ in value.uses()}
        if dtype == _WIDE or (any(map(self._is_wide, readers)) and _count(value) <= _SMALL):
            return self._add_beside(value, dtype)
        tensor = _narrow_tensor(_tensor(value), dtype, str(value.name))
        value.const_value, value.dtype = tensor, dtype
        producer = value.producer()
        if producer is not None:
            producer.attributes.clear()
            producer.attributes["value"] = ir.AttrTensor("value", tensor)
        return value

    def _add_beside(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        if _count(value) > _SMALL:  # a weight: once is enough
            if (value, dtype) not in self._casts:
                self._casts[value, dtype] = self._cast(value, dtype)
            return self._casts[value, dtype]
        name = f"{value.name}.{dtype.name.lower()}"
        if name not in self.graph.initializers:
            tensor = _narrow_tensor(_tensor(value), dtype, name)
            self.graph.initializers.add(
                ir.Value(name=name, shape=value.shape, type=ir.TensorType(dtype), const_value=tensor)
            )
        return self.graph.initializers[name]

    def finish(self) -> None:
        for at, value in enumerate(self.graph.outputs):
            wanted = self.outputs[value]
            if value.dtype != wanted and value.dtype in (_WIDE, self.dtype) and wanted is not None:
                self._return_as(at, value, wanted)

    def _return_as(self, at: int, value: ir.Value, dtype: ir.DataType) -> None:
        name, returned = value.name, self._as(value, dtype)
        assert value.dtype is not None
        value.name, returned.name = f"{name}.{value.dtype.name.lower()}", name
        self.graph.outputs[at] = returned


def _computes_float(node: ir.Node) -> bool:
    if node.op_type == "Constant":
        return False  # turned where it is read
    return bool(_floats(node.inputs) or _floats(node.outputs))


def _floats(values: Collection[ir.Value | None]) -> list[ir.Value]:
    return [value for value in values if value is not None and value.dtype == _WIDE]


def _is_constant(value: ir.Value) -> bool:
    producer = value.producer()
    return value.is_initializer() or (producer is not None and producer.op_type == "Constant")


def _tensor(value: ir.Value) -> ir.TensorProtocol:
    tensor = ir.convenience.get_const_tensor(value)
    assert tensor is not None
    return tensor


def _count(value: ir.Value) -> int:
    return int(_tensor(value).size)


def _numbers(value: ir.Value) -> list[float]:
    return [float(number) for number in _tensor(value).numpy().reshape(-1)]


def _is_lost(number: float, dtype: ir.DataType) -> bool:
    return number != 0 and abs(number) < float(dtype.tiny)


def _narrow_tensor(tensor: ir.TensorProtocol, dtype: ir.DataType, name: str) -> ir.TensorProtocol:
    most = float(dtype.max)

    def narrow() -> ir.TensorProtocol:
        numbers = tensor.numpy()
        bounded = np.where(np.isfinite(numbers), np.clip(numbers, -most, most), numbers)
        return ir.Tensor(bounded.astype(dtype.numpy()), dtype=dtype, name=name)

    return ir.LazyTensor(narrow, dtype, ir.Shape(tensor.shape.numpy()), name=name)
