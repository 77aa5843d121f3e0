"""Static int8: every product with a constant reads an activation that was rounded by a scale known beforehand.

    before    MatMul(x, W)
    after     MatMul(DequantizeLinear(QuantizeLinear(x, s, 0), s, 0), DequantizeLinear(W₈, t, axis))

Both are symmetric (zero point 0): one scale s a tensor for activations, one scale t an output channel for weights, as
TensorRT wants them. An activation is rounded once for all products that read it. What a product adds, and what stands
between products, stays float32: OpenVINO 2026.4 answers wrongly where what a Conv returns is rounded (docs/log.md).

Legend: K reduced axis, N output channels.
Source: ONNX operator specification, QuantizeLinear and DequantizeLinear; Jacob et al. 2018, "Quantization and training
of neural networks for efficient integer-arithmetic-only inference".
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.products import add_initializer, products_of
from export.passes.match.score_factors import note_largest, score_factors

LARGEST = 127
"""Of int8 without −128, so that the range is symmetric."""
_NOTHING = 1e-30  # of an activation that was always 0 any scale is right
_RECURRENT = frozenset({"GRU", "LSTM", "RNN"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounded:
    """A product whose two factors are rounded.

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


def rounded_products(graph: ir.Graph) -> list[Rounded]:
    """Every product of a float32 activation with a float32 constant that nothing else reads."""
    return [product for product in _every_product(graph) if _is_of_its_own(product)]


def calibrated_values(graph: ir.Graph) -> list[ir.Value]:
    """Everything of which calibration finds the largest magnitude: what is rounded here, or for one target."""
    factors = [factor.source for factor in score_factors(graph)]
    return list(dict.fromkeys([*(product.activation for product in rounded_products(graph)), *factors]))


@dataclass(frozen=True)
class QuantiseStatic(Rewrite):
    """Put QuantizeLinear and DequantizeLinear before every product of a float32 activation with a constant.

    Attributes:
        largest: name of an activation → the largest magnitude that calibration found for it.
        calibration: what was found, for the manifest.
    """

    largest: Mapping[str, float]
    calibration: dict[str, Any] | None = None

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        result.calibration = self.calibration
        result.kept += kept_places(graph)
        note_largest(graph, self.largest)
        round_products(graph, rounded_products(graph), self.largest, result)


def round_products(
    graph: ir.Graph, products: Iterable[Rounded], largest: Mapping[str, float], result: RewriteResult
) -> None:
    """Put QuantizeLinear and DequantizeLinear before both factors of each product.

    Args:
        graph: changed in place; nodes may be left unsorted.
        products: of it.
        largest: name of an activation → its largest magnitude.
        result: counts the products; one whose activation has no magnitude is missed.
    """
    tape = Tape(graph)

    def round_activation(activation: ir.Value, magnitude: float) -> ir.Value:
        return rounded_activation(tape, graph, activation, magnitude)

    def round_weight(product: Rounded) -> ir.Value:
        return _rounded_weight(tape, graph, product)

    replace_factors(products, largest, round_activation, round_weight, result)


def replace_factors(
    products: Iterable[Rounded],
    largest: Mapping[str, float],
    round_activation: Callable[[ir.Value, float], ir.Value],
    round_weight: Callable[[Rounded], ir.Value],
    result: RewriteResult,
) -> None:
    """Let products read rounded factors, each activation and each weight rounded once for all that read it.

    Args:
        products: to rewrite.
        largest: name of an activation → its largest magnitude.
        round_activation: makes the rounded activation of one and its largest magnitude.
        round_weight: makes the rounded weight of a product.
        result: counts the products; one whose activation has no magnitude is missed.
    """
    activations, weights = dict[str, ir.Value](), dict[str, ir.Value]()
    for product in products:
        name, weight = str(product.activation.name), str(product.weight.name)
        if name not in largest:
            result.missed.append(f"{product.node.outputs[0].name}: calibration saw no {name!r}")
            continue
        if name not in activations:
            activations[name] = round_activation(product.activation, largest[name])
        if weight not in weights:
            weights[weight] = round_weight(product)
        product.node.replace_input_with(0, activations[name])
        product.node.replace_input_with(1, weights[weight])
        result.fired += 1


def _every_product(graph: ir.Graph) -> Iterator[Rounded]:
    for product in products_of(graph):
        axis = 0 if product.transposed else 1
        yield Rounded(node=product.node, activation=product.activation, weight=product.weight, axis=axis)
    for node in graph:
        if node.op_type == "Conv" and node.inputs[1] is not None and node.inputs[1].is_initializer():
            assert node.inputs[0] is not None
            yield Rounded(node=node, activation=node.inputs[0], weight=node.inputs[1], axis=0)


def _is_of_its_own(product: Rounded) -> bool:
    own = (product.node.op_type, 1)
    return all((user.op_type, index) == own for user, index in product.weight.uses())


def kept_places(graph: ir.Graph) -> Iterator[str]:
    """Products whose weight others read too, and recurrent layers: what stays floating-point, and why."""
    for product in _every_product(graph):
        if not _is_of_its_own(product):
            readers = ", ".join(sorted({user.op_type for user in product.weight.consumers()}))
            yield f"{product.node.outputs[0].name}: its weight {product.weight.name} is read by {readers}"
    for node in graph:
        if node.op_type in _RECURRENT:
            yield f"{next(one.name for one in node.outputs if one.name)}: no runtime has a recurrent layer of Q/DQ"


def rounded_activation(tape: Tape, graph: ir.Graph, activation: ir.Value, largest: float) -> ir.Value:
    """Nodes that round an activation to int8 and restore it.

    Args:
        tape: adds them to the graph.
        graph: keeps the scale.
        activation: float32.
        largest: its largest magnitude; any, if it was always 0.

    Returns:
        The rounded activation, float32.
    """
    name = activation.name
    step = np.array((largest if largest > _NOTHING else 1.0) / LARGEST, np.float32)
    scale, zero = (
        add_initializer(graph, f"{name}.activation_scale", step),
        add_initializer(graph, "int8.zero_point", np.array(0, np.int8)),
    )
    integers = tape.op("QuantizeLinear", [activation, scale, zero])
    describe_value(integers, f"{name}.int8", activation.shape, ir.DataType.INT8)
    restored = tape.op("DequantizeLinear", [integers, scale, zero])
    describe_value(restored, f"{name}.rounded", activation.shape, ir.DataType.FLOAT)
    return restored


def _rounded_weight(tape: Tape, graph: ir.Graph, product: Rounded) -> ir.Value:
    weight, name = product.weight, str(product.weight.name)
    assert weight.const_value is not None
    integers, scale = quantised_weight(weight.const_value.numpy(), product.axis)
    inputs = [
        add_initializer(graph, f"{name}.int8", integers),
        add_initializer(graph, f"{name}.scale", scale),
        # Not left out: serving.runtime.ort.runner.widen_sums_of_bytes.
        add_initializer(graph, f"{name}.zero_point", np.zeros(len(scale), np.int8)),
    ]
    return replace_weight(graph, weight, tape.op("DequantizeLinear", inputs, {"axis": product.axis}))


def replace_weight(graph: ir.Graph, weight: ir.Value, restored: ir.Value) -> ir.Value:
    """Let a restored weight, float32, be read instead of a weight, which leaves the graph."""
    describe_value(restored, f"{weight.name}.rounded", weight.shape, ir.DataType.FLOAT)
    for user, index in tuple(weight.uses()):
        user.replace_input_with(index, restored)
    del graph.initializers[str(weight.name)]
    return restored


def describe_value(value: ir.Value, name: str, shape: ir.Shape | None, dtype: ir.DataType) -> None:
    """State what shape inference would not find before the graph is written."""
    value.name, value.shape, value.type = name, shape, ir.TensorType(dtype)


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
