"""The pass to FP8 on layers and on graphs that were exported: numbers, scales, what is left alone and why."""

from collections import Counter

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from export.passes.quantise import quantise_float8
from export.passes.quantise.lower_precision import LowerPrecision
from export.passes.quantise.quantise_float8 import LARGEST, QuantiseFloat8, scale_of
from export.passes.quantise.quantise_static import rounded_products
from tests.export.passes.layers import answers, layer

HALF = ir.DataType.FLOAT16
E4M3 = ir.DataType.FLOAT8E4M3FN


@pytest.fixture
def classifier(tiny_classifier):
    """A Conv, MatMuls and a Gemm."""
    return ir.load(tiny_classifier / "model.onnx")


def everything(model, largest=4.0):
    return {product.activation.name: largest for product in rounded_products(model.graph)}


def operators(model):
    return Counter(node.op_type for node in model.graph)


def evaluated(model, x):
    return ReferenceEvaluator(ir.to_proto(model)).run(None, {"x": x})[0]


def by_hand(numbers, scale):
    """Rounded to 3 bits behind the first and to multiples of 2⁻⁹, ties to even; no larger than 448."""
    steps = np.clip(np.abs(numbers / scale), 0, LARGEST).astype(np.float64)
    power = np.maximum(np.floor(np.log2(np.maximum(steps, 2.0**-9))), -6) - 3
    return np.sign(numbers) * np.rint(steps / 2**power) * 2**power * scale


def test_a_product_computes_what_rounding_both_factors_by_hand_gives():
    model, x = layer(16, 32), np.random.default_rng(1).normal(size=(2, 3, 16)).astype(np.float32)
    x[0, 0, :3] = 0, 1e-4, 9.0  # nothing, less than the least number, and more than calibration saw
    weight, bias = (model.graph.initializers[name].const_value.numpy() for name in ("weight", "bias"))
    assert QuantiseFloat8({"x": 2.0})(model).fired == 1
    scales = [scale_of(largest, HALF) for largest in (2.0, np.abs(weight).max())]
    wanted = by_hand(x, scales[0]) @ by_hand(weight, scales[1]) + bias
    np.testing.assert_allclose(evaluated(model, x), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.planted
@pytest.mark.parametrize("wrong", [2.0, 0.5])
def test_scales_that_are_off_by_a_factor_of_two_are_seen(wrong):
    model, x = layer(16, 32), np.random.default_rng(1).uniform(-2, 2, (2, 3, 16)).astype(np.float32)
    whole = evaluated(model, x)
    QuantiseFloat8({"x": 2.0})(model)
    right = np.abs(evaluated(model, x) - whole).max()
    step = model.graph.initializers["weight.scale"]
    step.const_value = ir.tensor(step.const_value.numpy() * np.float32(wrong))
    assert np.abs(evaluated(model, x) - whole).max() > 5 * right


def test_what_is_larger_than_calibration_saw_becomes_the_largest():
    model, x = layer(16, 32), np.ones((1, 1, 16), np.float32)
    QuantiseFloat8({"x": 2.0})(model)
    np.testing.assert_array_equal(evaluated(model, 2.1 * x), evaluated(model, 100 * x))  # the same numbers


@pytest.mark.parametrize("largest", [0.0, 1e-30, 1e-6, 0.02, 1.0, 3e4])
@pytest.mark.parametrize("dtype", [HALF, ir.DataType.BFLOAT16])
def test_a_scale_is_a_normal_number_above_zero_of_the_type_that_computes(largest, dtype):
    scale = scale_of(largest, dtype)
    assert scale.dtype == np.float32 and scale.shape == ()
    assert float(scale.astype(dtype.numpy())) == scale >= float(dtype.tiny)
    assert largest / scale <= LARGEST * (1 + float(dtype.eps))


def test_every_wide_product_is_rounded_and_an_activation_once_for_all_that_read_it(classifier):
    every = rounded_products(classifier.graph)
    products = [one for one in every if one.node.op_type == "MatMul"]
    narrow = {one.node.outputs[0].name for one in every if one not in products}  # pixels, and a handful of classes
    before, activations = operators(classifier), {product.activation for product in products}
    assert len(activations) < len(products), "query, key and value read one activation"
    result = QuantiseFloat8(everything(classifier))(classifier)
    assert (result.fired, result.kept, result.missed) == (len(products), [], [])
    assert {refusal.partition(":")[0] for refusal in result.refused} == narrow
    added = operators(classifier) - before
    assert added == {"QuantizeLinear": len(activations), "DequantizeLinear": len(activations) + len(products)}
    quantisers = [node for node in classifier.graph if node.op_type in added]
    assert {node.inputs[2].dtype for node in quantisers} == {E4M3}
    assert {node.outputs[0].dtype for node in quantisers} == {E4M3, ir.DataType.FLOAT}
    assert all(node.inputs[1].shape == () for node in quantisers), "one scale a tensor"


def test_a_second_run_fires_nothing(classifier):
    QuantiseFloat8(everything(classifier))(classifier)
    before = operators(classifier)
    assert QuantiseFloat8(everything(classifier))(classifier).fired == 0
    assert operators(classifier) == before


def test_a_weight_keeps_its_name_in_front_and_its_floats_leave_the_file(classifier):
    result = QuantiseFloat8(everything(classifier))(classifier)
    found = classifier.graph.initializers
    rounded = [name.removesuffix(".float8") for name in found if name.endswith(".float8")]
    assert len(rounded) == result.fired and not {*rounded} & found.keys()
    assert {found[f"{name}.float8"].const_value.numpy().dtype for name in rounded} == {
        np.dtype(ml_dtypes.float8_e4m3fn)
    }
    assert all(np.isfinite(found[f"{name}.float8"].const_value.numpy().astype(np.float32)).all() for name in rounded)


def test_an_activation_that_calibration_did_not_see_is_a_miss_by_name():
    result = QuantiseFloat8({})(layer(16, 16))
    assert (result.fired, result.missed) == (0, ["out: calibration saw no 'x'"])


@pytest.mark.parametrize(("width", "out", "fired"), [(16, 16, 1), (48, 16, 1), (24, 16, 0), (16, 10, 0)])
def test_a_matrix_is_rounded_where_both_sides_are_multiples_of_16(width, out, fired):
    result = QuantiseFloat8({"x": 1.0})(layer(width, out))
    assert result.fired == fired
    assert result.refused == ([] if fired else [f"out: a matrix of {width} by {out}, not of multiples of 16"])


@pytest.mark.parametrize(
    ("shape", "refusal"),
    [
        ((16, 16, 3, 3), ""),
        ((16, 16, 6, 6), "a filter of 36 numbers, more than 32"),
        ((32, 3, 3, 3), "a convolution of 3 to 32 channels, fewer than 16"),
    ],
)
def test_a_convolution_is_rounded_where_it_has_channels_enough_and_a_small_filter(shape, refusal):
    image = ir.Shape(["batch", shape[1], 16, 16])
    x = ir.Value(name="x", shape=image, type=ir.TensorType(ir.DataType.FLOAT))
    weight = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    kept = ir.Value(name="w", shape=ir.Shape(shape), type=x.type, const_value=ir.tensor(weight, name="w"))
    node = ir.node("Conv", [x, kept])
    node.outputs[0].name, node.outputs[0].type = "y", ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph([x], node.outputs, nodes=[node], initializers=[kept], opset_imports={"": 24})
    model, pixels = ir.Model(graph, ir_version=11), np.ones((1, shape[1], 16, 16), np.float32)
    result = QuantiseFloat8({"x": 1.0})(model)
    assert (result.fired, result.refused) == ((0, [f"y: {refusal}"]) if refusal else (1, []))
    if not refusal:
        pixel = by_hand(np.float64(1), scale_of(1.0, HALF))
        rounded = by_hand(weight, scale_of(np.abs(weight).max(), HALF)).sum((1, 2, 3)) * pixel
        np.testing.assert_allclose(evaluated(model, pixels)[0, :, 0, 0], rounded, rtol=1e-4, atol=1e-4)


BIASED = {
    "Gemm": ("float[B,16] x", "p = Gemm <transB = 1> (x, w, b) r = Relu(p) y = MatMul(r, v)", (16, 16)),
    "MatMul": ("float[B,16] x", "q = MatMul(x, w) p = Add(q, b) r = Relu(p) y = MatMul(r, v)", (16, 16)),
    "Conv": ("float[B,16,4,4] x", "p = Conv (x, w, b) r = Relu(p) y = Conv(r, v)", (16, 16, 3, 3)),
}


@pytest.mark.planted
@pytest.mark.parametrize("operator", BIASED)
def test_left_where_it_is_the_bias_would_be_lost(operator, monkeypatch):
    monkeypatch.setattr(quantise_float8, "_keep_bias_apart", lambda tape, graph, node: None)
    with pytest.raises(AssertionError):
        test_onnx_runtime_leaves_a_bias_between_two_roundings_as_it_is(operator)


@pytest.mark.parametrize("operator", BIASED)
def test_onnx_runtime_leaves_a_bias_between_two_roundings_as_it_is(operator):
    inputs, body, shape = BIASED[operator]
    image = operator == "Conv"
    outputs = f"float[B,16{',2,2' * image}] y"
    proto = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 24]> g ({inputs}) => ({outputs}) {{ {body} }}'
    )
    draw = np.random.default_rng(2)
    for name, size in (("w", shape), ("b", 16), ("v", (16, 16, *[1, 1] * image))):
        values = (0.1 * draw.normal(size=size)).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    for node in proto.graph.node:
        node.name = f"node_{node.output[0]}"
    model, x = ir.from_proto(proto), draw.uniform(-0.1, 0.1, (4, 16, *[4, 4] * image)).astype(np.float32)
    whole = evaluated(model, x)
    assert QuantiseFloat8({"x": 0.1, "r": 1.0})(model).fired == 2
    LowerPrecision(HALF, set(), lambda graph: {})(model)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    for found in (answers(model, x), evaluated(model, x)):
        assert np.abs(found - whole).max() < 0.1 * np.abs(whole).max()
