"""The pass on a layer, on graphs that were exported, and on copies changed so that it must leave something out."""

from collections import Counter

import numpy as np
import onnx_ir as ir
import pytest

from export.passes.quantise.quantise_static import QuantiseStatic, quantised_weight, rounded_products
from tests.export.passes.layers import activation, answers, constant, layer


@pytest.fixture
def classifier(tiny_classifier):
    """A Conv, MatMuls and a Gemm."""
    return ir.load(tiny_classifier / "model.onnx")


def everything(model, largest=4.0):
    return {product.activation.name: largest for product in rounded_products(model.graph)}


def operators(model):
    return Counter(node.op_type for node in model.graph)


def test_a_product_computes_what_rounding_both_factors_by_hand_gives():
    model, x = layer(16, 8), np.random.default_rng(1).uniform(-2, 2, (2, 3, 16)).astype(np.float32)
    weight, bias = (model.graph.initializers[name].const_value.numpy() for name in ("weight", "bias"))
    assert QuantiseStatic({"x": 2.0})(model).fired == 1
    steps = np.abs(weight).max(0) / 127
    rounded = np.rint(x / np.float32(2 / 127)) * np.float32(2 / 127)
    np.testing.assert_allclose(answers(model, x), rounded @ (np.rint(weight / steps) * steps) + bias, atol=1e-5)


def test_what_is_larger_than_calibration_saw_becomes_the_largest():
    model, x = layer(16, 8), np.ones((1, 1, 16), np.float32)
    QuantiseStatic({"x": 2.0})(model)
    np.testing.assert_array_equal(answers(model, 2.1 * x), answers(model, 100 * x))  # the same integers


def test_the_integers_are_signed_and_every_zero_point_is_0(classifier):
    QuantiseStatic(everything(classifier))(classifier)
    quantisers = [node for node in classifier.graph if node.op_type in ("QuantizeLinear", "DequantizeLinear")]
    points = [node.inputs[2] for node in quantisers if len(node.inputs) > 2]
    assert {(point.dtype, bool(point.const_value.numpy().any())) for point in points} == {(ir.DataType.INT8, False)}
    assert {node.outputs[0].dtype for node in quantisers} == {ir.DataType.INT8, ir.DataType.FLOAT}


def test_every_product_with_a_weight_is_rounded_and_an_activation_once_for_all_that_read_it(classifier):
    products = rounded_products(classifier.graph)
    assert {product.node.op_type for product in products} == {"MatMul", "Gemm", "Conv"}
    before, activations = operators(classifier), {product.activation for product in products}
    assert len(activations) < len(products), "query, key and value read one activation"
    outcome = QuantiseStatic(everything(classifier))(classifier)
    assert (outcome.fired, outcome.kept, outcome.missed) == (len(products), [], [])
    added = operators(classifier) - before
    assert added == {"QuantizeLinear": len(activations), "DequantizeLinear": len(activations) + len(products)}


def test_a_second_run_fires_nothing(classifier):
    QuantiseStatic(everything(classifier))(classifier)
    before = operators(classifier)
    assert QuantiseStatic(everything(classifier))(classifier).fired == 0
    assert operators(classifier) == before


def test_a_weight_keeps_its_name_in_front_and_its_floats_leave_the_file(classifier):
    names = {product.weight.name for product in rounded_products(classifier.graph)}
    QuantiseStatic(everything(classifier))(classifier)
    assert not names & classifier.graph.initializers.keys()
    assert {f"{name}.{part}" for name in names for part in ("int8", "scale")} <= classifier.graph.initializers.keys()


def test_an_activation_that_calibration_did_not_see_is_a_miss_by_name():
    outcome = QuantiseStatic({})(layer(16, 8))
    assert (outcome.fired, outcome.missed) == (0, ["out: calibration saw no 'x'"])


def test_a_weight_that_is_a_table_of_embeddings_too_stays_float32(language_model):
    model = ir.load(language_model / "decoder.onnx")
    product = rounded_products(model.graph)[0]
    rows = ir.node("Gather", [product.weight, constant("row", np.array([0]))])
    model.graph.insert_before(model.graph[0], rows)
    outcome = QuantiseStatic(everything(model))(model)
    named = f"{product.node.outputs[0].name}: its weight {product.weight.name} is read by Gather, MatMul"
    assert named in outcome.kept
    assert product.weight.name in model.graph.initializers


def test_recurrent_layers_stay_float32_and_are_named():
    model = layer(8, 8)
    weights = [constant(name, np.zeros((1, 24, 8), np.float32)) for name in ("w", "r")]
    model.graph.append(ir.node("GRU", [model.graph.outputs[0], *weights], {"hidden_size": 8}, name="gru"))
    model.graph[-1].outputs[0].name = "states"
    outcome = QuantiseStatic({"x": 1.0})(model)
    assert outcome.fired == 1
    assert outcome.kept == ["states: no runtime has a recurrent layer of Q/DQ"]


def test_two_products_of_one_weight_share_its_integers():
    model = layer(8, 8)
    weight, out = model.graph.initializers["weight"], model.graph.outputs[0]
    again = ir.node("MatMul", [out, weight], outputs=[activation("again", 8)])
    model.graph.append(again)
    model.graph.outputs[0] = again.outputs[0]
    assert QuantiseStatic({"x": 1.0, "y": 1.0})(model).fired == 2
    assert operators(model)["DequantizeLinear"] == 3


@pytest.mark.parametrize("axis", [0, 1])
def test_a_column_of_zeros_has_a_scale_and_stays_zero(axis):
    weight = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    np.moveaxis(weight, axis, 0)[2] = 0
    integers, scales = quantised_weight(weight, axis)
    assert np.isfinite(scales).all() and (scales > 0).all()
    assert not np.moveaxis(integers, axis, 0)[2].any()
    assert integers.min() >= -127
