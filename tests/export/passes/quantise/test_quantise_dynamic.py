"""The pass on exported graphs, and rows of a batch that must not hear of each other."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnxruntime.quantization import QuantType, quantize_dynamic

from export.passes.quantise.quantise_dynamic import QuantiseDynamic, quantise_columns
from tests.export.passes.layers import answers, layer

ROWS, WIDTH, OUT = 6, 96, 40


@pytest.fixture
def decoder(tiny_translator):
    """A decoder of two blocks whose table of embeddings is its head's weight."""
    return ir.load(tiny_translator / "decoder.onnx")


def operators(model):
    return [node.op_type for node in model.graph]


def activations(outlier=1.0):
    rows = np.random.default_rng(5).standard_normal((ROWS, 1, WIDTH)).astype(np.float32)
    rows[0] *= outlier
    return rows


def test_every_product_is_in_integers_and_a_shared_activation_is_quantised_once(decoder):
    outcome = QuantiseDynamic()(decoder)
    assert (outcome.fired, outcome.refused, outcome.missed) == (17, [], [])
    assert operators(decoder).count("MatMulInteger") == 17
    assert "MatMul" not in operators(decoder)
    # In each of two blocks query, key and value read one; the memory's keys and values, one in both blocks.
    assert operators(decoder).count("QuantizeLinear") == 13


def test_a_second_run_fires_nothing(decoder):
    QuantiseDynamic()(decoder)
    before = operators(decoder)
    assert QuantiseDynamic()(decoder).fired == 0
    assert operators(decoder) == before


def test_a_table_that_is_also_the_heads_weight_is_stored_once(decoder):
    QuantiseDynamic()(decoder)
    stored = {
        name: value.dtype for name, value in decoder.graph.initializers.items() if name.startswith("model.embedding")
    }
    assert stored == {
        "model.embedding.weight.int8": ir.DataType.INT8,
        "model.embedding.weight.scale": ir.DataType.FLOAT,
    }
    readers = decoder.graph.initializers["model.embedding.weight.int8"].consumers()
    assert sorted(node.op_type for node in readers) == ["Gather", "Transpose"]


def test_what_remains_is_of_the_standard_and_keeps_its_signature(decoder, tmp_path):
    before = [(value.name, value.dtype, value.shape) for value in (*decoder.graph.inputs, *decoder.graph.outputs)]
    QuantiseDynamic()(decoder)
    ir.save(decoder, tmp_path / "decoder.onnx")
    onnx.checker.check_model(tmp_path / "decoder.onnx", full_check=True)
    assert {node.domain for node in decoder.graph} == {""}
    assert [
        (value.name, value.dtype, value.shape) for value in (*decoder.graph.inputs, *decoder.graph.outputs)
    ] == before


def test_convolutions_and_recurrent_layers_stay_as_they_are(tiny_classifier):
    model = ir.load(tiny_classifier / "model.onnx")
    outcome = QuantiseDynamic()(model)
    assert "a convolution" in outcome.refused[0]
    assert operators(model).count("Conv") == 1


def test_a_narrow_product_is_refused():
    model = layer(4, OUT)
    assert QuantiseDynamic()(model).refused == ["out: its rows have 4 numbers, less than 8"]
    assert operators(model) == ["MatMul", "Add"]


def test_an_outlier_in_one_row_changes_no_bit_of_the_others():
    model = layer(WIDTH, OUT)
    QuantiseDynamic()(model)
    calm, loud = (answers(model, activations(outlier)) for outlier in (1.0, 100.0))
    assert np.array_equal(calm[1:], loud[1:])  # each row by itself, in the same order of sums
    assert not np.array_equal(calm[0], loud[0])


@pytest.mark.planted
def test_one_scale_for_all_rows_fails_that_test(tmp_path):
    ir.save(layer(WIDTH, OUT), tmp_path / "layer.onnx")
    quantize_dynamic(tmp_path / "layer.onnx", tmp_path / "stock.onnx", weight_type=QuantType.QInt8, per_channel=True)
    session = ort.InferenceSession(tmp_path / "stock.onnx")
    calm, loud = (session.run(None, {"x": activations(outlier)})[0] for outlier in (1.0, 100.0))
    assert np.abs(calm[1:] - loud[1:]).max() > 0.1 * np.abs(calm[1:]).max()


@pytest.mark.parametrize("outlier", [1.0, 100.0])
def test_the_error_is_within_half_a_step_of_each_factor(outlier):
    model, rows = layer(WIDTH, OUT), activations(outlier).astype(np.float64)
    weight = model.graph.initializers["weight"].const_value.numpy().astype(np.float64)
    exact = rows @ weight + model.graph.initializers["bias"].const_value.numpy()
    QuantiseDynamic()(model)
    row, column = np.abs(rows).max(-1, keepdims=True) / 127, np.abs(weight).max(0) / 127
    # |x w - x' w'| <= |x| c/2 + |w| r/2 + r c/4, and so for a sum of them
    bound = (
        np.abs(rows).sum(-1, keepdims=True) * column / 2 + np.abs(weight).sum(0) * row / 2 + WIDTH * row * column / 4
    )
    assert (np.abs(answers(model, rows.astype(np.float32)) - exact) <= bound * 1.0001 + 1e-5).all()


def test_a_row_of_zeros_gives_the_bias():
    model = layer(WIDTH, OUT)
    bias = model.graph.initializers["bias"].const_value.numpy()
    QuantiseDynamic()(model)
    assert np.array_equal(answers(model, np.zeros((2, 1, WIDTH), np.float32)), np.broadcast_to(bias, (2, 1, OUT)))


def test_a_column_of_zeros_stays_zero():
    levels, scale = quantise_columns(np.array([[0.0, 1.0], [0.0, -2.0]], np.float32))
    assert levels.tolist() == [[0, 64], [0, -127]]
    assert scale.tolist() == [1.0, np.float32(2.0) / np.float32(127)]
