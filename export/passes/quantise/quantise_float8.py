"""FP8: products with a constant read 8-bit floating-point numbers (E4M3), by scales known beforehand.

    before    MatMul(x, W)
    after     MatMul(DequantizeLinear(QuantizeLinear(x, s, 0), s, 0), DequantizeLinear(W₈, t, 0))

One scale a tensor, for activations and for weights: the largest magnitude becomes 448, E4M3's largest number, and what
is larger saturates. E4M3 has an exponent of its own, so that a scale a column would gain little; products with one are
Hopper's alone. Scales are numbers of the type in which activations are computed, so that nothing is rounded later, and
normal ones. The type of QuantizeLinear's result is that of its zero point.

What a Gemm or a Conv adds is added behind it: ONNX Runtime 1.31 rounds a bias of two restored factors to int32, by the
product of both scales, which is less than float16 has numbers for. For the same reason a MatMul of two matrices becomes
a Gemm, which that runtime does not join with an Add.

TensorRT has no FP8 kernels for narrow products and convolutions: they stay floating-point, and the result says so.

Source: ONNX operator specification, QuantizeLinear; Micikevicius et al. 2022, "FP8 formats for deep learning";
NVIDIA's Model-Optimizer, modelopt/onnx/quantization/graph_utils.py, find_nodes_from_convs_to_exclude; TensorRT 10.6's
release notes, per-channel scaling for FP8 GEMMs; cuBLAS's documentation, cublasLtMatmul: FP8 matrices by 16.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.products import add_initializer
from export.passes.quantise.quantise_static import (
    Rounded,
    describe_value,
    kept_places,
    replace_factors,
    replace_weight,
    rounded_products,
)

LARGEST = 448.0
"""Of E4M3 without infinities."""
MULTIPLE = 16
"""Both sides of a matrix are multiples of it."""
LEAST_CHANNELS = 16
"""On either side of a convolution."""
LARGEST_FILTER = 32
"""Numbers of a convolution's filter in one channel."""
_ZERO = "float8.zero_point"


@dataclass(frozen=True)
class QuantiseFloat8(Rewrite):
    """Rewrite every product of a float32 activation with a float32 constant that TensorRT has an FP8 kernel for.

    Attributes:
        largest: name of an activation → the largest magnitude that calibration found for it.
        calibration: what was found, for the manifest.
        dtype: of the numbers that scales can be.
    """

    largest: Mapping[str, float]
    calibration: dict[str, Any] | None = None
    dtype: ir.DataType = ir.DataType.FLOAT16

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        tape, result.calibration = Tape(graph), self.calibration
        result.kept += kept_places(graph)
        products = []
        for product in rounded_products(graph):
            refusal = _find_refusal(product)
            if refusal:
                result.refused.append(f"{product.node.outputs[0].name}: {refusal}")
            else:
                products.append(product)

        def round_activation(activation: ir.Value, largest: float) -> ir.Value:
            name = activation.name
            scale = add_initializer(graph, f"{name}.activation_scale", scale_of(largest, self.dtype))
            zero = add_initializer(graph, _ZERO, np.zeros((), ml_dtypes.float8_e4m3fn))
            numbers = tape.op("QuantizeLinear", [activation, scale, zero])
            describe_value(numbers, f"{name}.float8", activation.shape, ir.DataType.FLOAT8E4M3FN)
            restored = tape.op("DequantizeLinear", [numbers, scale, zero])
            describe_value(restored, f"{name}.rounded", activation.shape, ir.DataType.FLOAT)
            return restored

        def round_weight(product: Rounded) -> ir.Value:
            weight = product.weight
            assert weight.const_value is not None
            whole = weight.const_value.numpy()
            scale = scale_of(float(np.abs(whole).max()), self.dtype)
            numbers = np.clip(whole / scale, -LARGEST, LARGEST).astype(ml_dtypes.float8_e4m3fn)
            inputs = [
                add_initializer(graph, f"{weight.name}.float8", numbers),
                add_initializer(graph, f"{weight.name}.scale", scale),
                add_initializer(graph, _ZERO, np.zeros((), ml_dtypes.float8_e4m3fn)),
            ]
            return replace_weight(graph, weight, tape.op("DequantizeLinear", inputs))

        replace_factors(products, self.largest, round_activation, round_weight, result)
        for product in products:
            if product.node.inputs[1] is not product.weight:
                _keep_bias_apart(tape, graph, product.node)


def _keep_bias_apart(tape: Tape, graph: ir.Graph, node: ir.Node) -> None:
    activation, bias = node.inputs[0], node.inputs[2] if len(node.inputs) > 2 else None
    if node.op_type == "MatMul" and activation is not None and activation.shape is not None:
        node.op_type = "Gemm" if len(activation.shape) == 2 else "MatMul"
    if bias is None:
        return
    if node.op_type == "Conv":
        assert bias.const_value is not None and node.inputs[1] is not None and node.inputs[1].shape is not None
        column = bias.const_value.numpy().reshape(-1, *[1] * (len(node.inputs[1].shape) - 2))
        bias = add_initializer(graph, f"{bias.name}.column", column)
    node.resize_inputs(2)
    computed = node.outputs[0]
    total = tape.op("Add", [computed, bias])
    name, shape, dtype = computed.name, computed.shape, computed.dtype
    ir.convenience.replace_all_uses_with(computed, total, replace_graph_outputs=True)
    total.producer().replace_input_with(0, computed)  # type: ignore[union-attr]
    computed.name = f"{name}.product"
    describe_value(total, str(name), shape, dtype or ir.DataType.FLOAT)


def scale_of(largest: float, dtype: ir.DataType) -> np.ndarray[tuple[()], np.dtype[np.float32]]:
    """The scale that makes a magnitude 448: a normal number of a type, as float32."""
    rounded = np.array(largest / LARGEST, np.float32).astype(dtype.numpy()).astype(np.float32)
    return np.array(max(float(rounded), float(dtype.tiny)), np.float32)


def _find_refusal(product: Rounded) -> str:
    assert product.weight.const_value is not None
    outputs, inputs, *window = product.weight.const_value.shape.numpy()
    if product.node.op_type != "Conv":
        narrow = outputs % MULTIPLE or inputs % MULTIPLE
        return f"a matrix of {outputs} by {inputs}, not of multiples of {MULTIPLE}" if narrow else ""
    if min(outputs, inputs) < LEAST_CHANNELS:
        return f"a convolution of {inputs} to {outputs} channels, fewer than {LEAST_CHANNELS}"
    return f"a filter of {prod(window)} numbers, more than {LARGEST_FILTER}" if prod(window) > LARGEST_FILTER else ""
