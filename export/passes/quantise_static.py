"""Static int8: every product with a constant reads an activation that was rounded by a scale known beforehand.

    before    MatMul(x, W)
    after     MatMul(DequantizeLinear(QuantizeLinear(x, s, 0), s, 0), DequantizeLinear(W₈, t, axis))

Both are symmetric (zero point 0): one scale s a tensor for activations, one scale t an output channel for weights, as
TensorRT wants them. An activation is rounded once for all products that read it. A weight keeps its name.

Legend: K reduced axis, N output channels.
Source: ONNX operator specification, QuantizeLinear and DequantizeLinear; Jacob et al. 2018, "Quantization and training
of neural networks for efficient integer-arithmetic-only inference".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes.common import TopologicalSortPass
from onnx_ir.tape import Tape

from export.passes.outcome import Outcome

LARGEST = 127
"""Of int8 without −128, so that the range is symmetric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A product of an activation with a weight.

    Attributes:
        node: MatMul, Gemm or Conv.
        activation: what varies from run to run.
        weight: the constant.
        axis: of the weight's output channels.
    """

    node: ir.Node
    activation: ir.Value
    weight: ir.Value
    axis: int


def products(graph: ir.Graph) -> Iterator[Product]:
    """Every product of a float32 activation with a float32 constant that no other operator reads."""
    for node in graph:
        axis = _output_axis(node)
        weight = None if axis is None else node.inputs[1]
        if axis is not None and weight is not None and _is_weight(graph, weight):
            activation = node.inputs[0]
            assert activation is not None
            yield Product(node=node, activation=activation, weight=weight, axis=axis)


def quantise_static(model: ir.Model, largest: Mapping[str, float]) -> Outcome:
    """Put QuantizeLinear and DequantizeLinear before every product of a float32 activation with a constant.

    Args:
        model: changed in place.
        largest: name of an activation → the largest magnitude that calibration found for it.
    """
    graph, fired, misses = model.graph, 0, []
    tape, rounded = Tape(graph), dict[str, ir.Value]()
    for product in list(products(graph)):
        name = str(product.activation.name)
        if name not in largest:
            misses.append(f"{product.node.outputs[0].name}: calibration saw no {name!r}")
            continue
        if name not in rounded:
            rounded[name] = _rounded(tape, graph, product.activation, largest[name])
        product.node.replace_input_with(0, rounded[name])
        product.node.replace_input_with(1, _restored(tape, graph, product))
        fired += 1
    TopologicalSortPass()(model)
    return Outcome(name="quantise_static", fired=fired, misses=tuple(misses))


def _output_axis(node: ir.Node) -> int | None:
    if node.op_type == "MatMul":
        return 1
    if node.op_type == "Gemm" and not node.attributes.get_int("transA", 0):
        return 0 if node.attributes.get_int("transB", 0) else 1
    return 0 if node.op_type == "Conv" else None


def _is_weight(graph: ir.Graph, value: ir.Value) -> bool:
    known = value.const_value is not None and value.name in graph.initializers
    ranks = (2,) if known and all(user.op_type != "Conv" for user in value.consumers()) else (3, 4, 5)
    readers = {(user.op_type, index) for user, index in value.uses()}
    alike = len(readers) == 1 and {index for _, index in readers} == {1}
    return known and value.dtype == ir.DataType.FLOAT and len(value.shape or ()) in ranks and alike


def _rounded(tape: Tape, graph: ir.Graph, activation: ir.Value, largest: float) -> ir.Value:
    name = activation.name
    scale = _constant(graph, f"{name}.scale", np.float32(max(largest, np.finfo(np.float32).tiny * LARGEST) / LARGEST))
    zero = graph.initializers.get(_ZERO) or _constant(graph, _ZERO, np.int8(0))
    integers = tape.op("QuantizeLinear", [activation, scale, zero])
    restored = tape.op("DequantizeLinear", [integers, scale, zero])
    for value, word, dtype in (
        (integers, "quantised", ir.DataType.INT8),
        (restored, "restored", ir.DataType.FLOAT),
    ):
        value.name, value.shape, value.type = f"{name}.{word}", activation.shape, ir.TensorType(dtype)
    return restored


_ZERO = "int8.zero_point"


def _restored(tape: Tape, graph: ir.Graph, product: Product) -> ir.Value:
    users = [user for user in product.weight.consumers() if user.op_type == "DequantizeLinear"]
    if users:
        return users[0].outputs[0]
    weight, name = product.weight, str(product.weight.name)
    assert weight.const_value is not None
    integers, scale = quantised_weight(weight.const_value.numpy(), product.axis)
    float_shape = weight.shape
    replacement = _constant(graph, f"{name}.int8", integers)
    scales = _constant(graph, f"{name}.scale", scale)
    restored = tape.op("DequantizeLinear", [replacement, scales], {"axis": product.axis})
    restored.name, restored.shape, restored.type = f"{name}.restored", float_shape, ir.TensorType(ir.DataType.FLOAT)
    for user, index in tuple(weight.uses()):
        user.replace_input_with(index, restored)
    del graph.initializers[name]
    return restored


def quantised_weight(weight: NDArray[np.float32], axis: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Round a weight to int8, one scale an output channel.

    Args:
        weight: of any rank.
        axis: of the output channels, N of them.

    Returns:
        The integers, −127 to 127, and the scales ``[N]``.
    """
    others = tuple(index for index in range(weight.ndim) if index != axis)
    largest_N = np.abs(weight).max(axis=others)
    scale_N = np.where(largest_N > 0, largest_N / LARGEST, 1).astype(np.float32)
    along = scale_N.reshape([-1 if index == axis else 1 for index in range(weight.ndim)])
    return np.clip(np.rint(weight / along), -LARGEST, LARGEST).astype(np.int8), scale_N


def _constant(graph: ir.Graph, name: str, array: NDArray[np.generic] | np.generic) -> ir.Value:
    tensor = ir.tensor(np.asarray(array), name=name)
    value = ir.Value(name=name, shape=ir.Shape(tensor.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
    graph.register_initializer(value)
    return value
