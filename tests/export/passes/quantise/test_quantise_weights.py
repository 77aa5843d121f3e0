"""The pass on exported graphs, and what ONNX Runtime makes of what it writes, read as one node and as two."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from export.passes.quantise.block_quantisers import half_quadratic, symmetric
from export.passes.quantise.quantise_dynamic import QuantiseDynamic
from export.passes.quantise.quantise_weights import QuantiseWeights
from tests.export.passes.layers import answers, layer, runtimes_own

WIDTH, OUT = 200, 24
NONE, ALL = ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_ALL


@pytest.fixture
def decoder(tiny_translator):
    """A decoder of two blocks whose table of embeddings is its head's weight."""
    return ir.load(tiny_translator / "decoder.onnx")


@pytest.fixture(params=[symmetric, half_quadratic])
def quantiser(request):
    """Without and with zero points."""
    return request.param


def operators(model):
    return [node.op_type for node in model.graph]


def activations(seed=5):
    return np.random.default_rng(seed).standard_normal((3, 2, WIDTH)).astype(np.float32)


def test_every_product_but_the_last_reads_weights_of_4_bits(decoder):
    assert QuantiseDynamic(last_only=True)(decoder).fired == 1
    outcome = QuantiseWeights()(decoder)
    assert (outcome.fired, outcome.refused, outcome.missed) == (16, [], [])
    types = [value.dtype for name, value in decoder.graph.initializers.items() if name.endswith(".int4")]
    assert types == [ir.DataType.INT4] * 16
    assert operators(decoder).count("DequantizeLinear") == operators(decoder).count("MatMul") == 16
    assert operators(decoder).count("MatMulInteger") == 1


def test_a_second_run_fires_nothing(decoder, quantiser):
    QuantiseDynamic(last_only=True)(decoder)
    QuantiseWeights(32, quantiser)(decoder)
    before = operators(decoder)
    assert QuantiseWeights(32, quantiser)(decoder).fired == 0
    assert operators(decoder) == before


def test_what_remains_is_of_the_standard_and_keeps_its_signature(decoder, quantiser, tmp_path):
    before = [(value.name, value.dtype, value.shape) for value in (*decoder.graph.inputs, *decoder.graph.outputs)]
    QuantiseWeights(32, quantiser)(decoder)
    ir.save(decoder, tmp_path / "decoder.onnx")
    onnx.checker.check_model(tmp_path / "decoder.onnx", full_check=True)
    assert {node.domain for node in decoder.graph} == {""}
    assert [
        (value.name, value.dtype, value.shape) for value in (*decoder.graph.inputs, *decoder.graph.outputs)
    ] == before


def test_onnx_runtime_reads_each_as_one_node_of_its_own(decoder, tmp_path):
    QuantiseDynamic(last_only=True)(decoder)
    QuantiseWeights()(decoder)
    read = runtimes_own(decoder, tmp_path / "own.onnx")
    assert read.count("MatMulNBits") == 16
    assert "DequantizeLinear" not in read


@pytest.mark.parametrize("size", [32, 128, 256])
def test_both_readings_agree_with_float64_over_the_same_weights(quantiser, size, tmp_path):
    model, rows = layer(WIDTH, OUT), activations()
    weight, bias = (model.graph.initializers[name].const_value.numpy() for name in ("weight", "bias"))
    blocks = quantiser(weight, size)
    QuantiseWeights(size, quantiser)(model)
    scale = np.repeat(blocks.scale.astype(np.float64), size, 0)[:WIDTH]
    zero = 0 if blocks.zero is None else np.repeat(blocks.zero.astype(np.float64), size, 0)[:WIDTH]
    exact = rows @ ((blocks.levels.astype(np.float64) - zero) * scale) + bias
    assert "MatMulNBits" in runtimes_own(model, tmp_path / "own.onnx")
    two, one = (answers(model, rows, level) for level in (NONE, ALL))
    assert np.abs(two - exact).max() < 1e-5 * np.abs(exact).max()
    assert np.abs(one - exact).max() < 2e-2 * np.abs(exact).max(), "it multiplies in 8 bits"


def test_a_relu_does_not_keep_the_runtime_from_its_node(tmp_path):
    model = layer(WIDTH, OUT)
    product = model.graph[0].outputs[0]
    relu = ir.node("Relu", [product])
    product.replace_all_uses_with(relu.outputs[0])
    relu.replace_input_with(0, product)
    model.graph.insert_after(model.graph[0], relu)
    before = answers(model, activations())
    QuantiseWeights()(model)
    assert "Relu" not in operators(model)
    assert "DequantizeLinear" not in runtimes_own(model, tmp_path / "own.onnx")
    assert np.abs(answers(model, activations()) - before).max() < 0.2 * np.abs(before).max()


def test_smaller_blocks_are_more_exact():
    errors = []
    for size in (32, 256):
        model, rows = layer(WIDTH, OUT), activations()
        exact = answers(model, rows)
        QuantiseWeights(size)(model)
        errors.append(np.abs(answers(model, rows, NONE) - exact).mean())
    assert errors[0] < 0.9 * errors[1]


def test_a_product_narrower_than_a_block_is_refused():
    model = layer(8, OUT)
    outcome = QuantiseWeights()(model)
    assert outcome.refused == ["out: its rows have 8 numbers, less than a block's 16"]
    assert operators(model) == ["MatMul", "Add"]
