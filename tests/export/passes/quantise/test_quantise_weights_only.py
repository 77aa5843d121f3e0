"""Weights alone in integers, as TensorRT's parser reads them; that it does is in tests/export/passes/tensorrt."""

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

from export.graph.exported_graph import require_standard
from export.passes.quantise.quantise_weights_only import QuantiseWeightsOnly
from tests.export.passes.layers import answers, layer

WIDTH, OUT = 192, 24
AS_WRITTEN = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
"""Otherwise it rounds activations to 8 bits as well."""


@pytest.fixture
def decoder(tiny_translator):
    """A decoder of two blocks whose table of embeddings is its head's weight."""
    return ir.load(tiny_translator / "decoder.onnx")


@pytest.mark.parametrize("bits", [8, 4])
def test_every_product_reads_integers_once_and_the_table_stays_for_lookups(decoder, bits):
    done = QuantiseWeightsOnly(bits)(decoder)
    assert (done.fired, done.refused, done.missed) == (17, [], [])
    operators = [node.op_type for node in decoder.graph]
    assert operators.count("DequantizeLinear") == operators.count("MatMul") == 17
    lookups = [node for node in decoder.graph if node.op_type == "Gather"]
    assert lookups and all(node.inputs[0].dtype == ir.DataType.FLOAT for node in lookups)
    assert QuantiseWeightsOnly(bits)(decoder).fired == 0


def test_the_last_product_alone_then_the_others_in_fewer_bits(decoder):
    assert [QuantiseWeightsOnly(8, last_only=True)(decoder).fired, QuantiseWeightsOnly(4)(decoder).fired] == [1, 16]


@pytest.mark.parametrize(("bits", "scales"), [(8, (OUT,)), (4, (3, OUT))], ids=["8 bits", "4 bits in blocks of 64"])
def test_weights_are_levels_times_positive_scales_of_half_precision(bits, scales):
    model = layer(WIDTH, OUT)
    weight = model.graph.initializers["weight"].const_value.numpy()
    bias = model.graph.initializers["bias"].const_value.numpy()
    QuantiseWeightsOnly(bits)(model)
    model.graph.name = "layer"
    require_standard(model)
    levels, scale = (model.graph.initializers[f"weight.{part}"].const_value.numpy() for part in (f"int{bits}", "scale"))
    assert scale.shape == scales and (scale > 0).all()
    assert (scale.astype(np.float16) == scale).all()
    whole = levels.astype(np.float32) * (scale if bits == 8 else np.repeat(scale, 64, 0))
    assert np.abs(whole - weight).max() < np.abs(weight).max() * {8: 0.01, 4: 0.3}[bits]
    x = np.random.default_rng(2).standard_normal((2, 3, WIDTH)).astype(np.float32)
    assert np.abs(answers(model, x, AS_WRITTEN) - (x @ whole + bias)).max() < 1e-4


@pytest.mark.parametrize(("width", "block"), [(384, 128), (192, 64)])
def test_a_block_is_128_numbers_where_they_divide_a_column_and_else_64(width, block):
    model = layer(width, OUT)
    done = QuantiseWeightsOnly(4)(model)
    (node,) = [node for node in model.graph if node.op_type == "DequantizeLinear"]
    assert node.attributes.get_int("block_size") == block
    assert model.graph.initializers["weight.scale"].shape == (width // block, OUT)
    assert done.kept == []


@pytest.mark.parametrize("width", [8, 32, 96, 352])
def test_a_column_that_neither_divides_gets_8_bits_as_the_result_says(width):
    wanted, model = layer(width, OUT), layer(width, OUT)
    QuantiseWeightsOnly(8)(wanted)
    done = QuantiseWeightsOnly(4)(model)
    assert (done.fired, done.refused) == (1, [])
    assert done.kept == [f"out: 8 bits, its rows have {width} numbers, which neither 64 nor 128 divides"]
    for name in ("weight.int8", "weight.scale"):
        found, expected = (one.graph.initializers[name].const_value.numpy() for one in (model, wanted))
        assert found.dtype == expected.dtype and (found == expected).all()
    (node,) = [node for node in model.graph if node.op_type == "DequantizeLinear"]
    assert (node.attributes.get_int("axis"), "block_size" in node.attributes) == (1, False)


@pytest.mark.parametrize("bits", [8, 4])
def test_a_column_of_less_than_8_numbers_is_refused_with_the_reason(bits):
    done = QuantiseWeightsOnly(bits)(layer(7, OUT))
    assert (done.fired, done.refused, done.kept) == (0, ["out: its rows have 7 numbers, less than 8"], [])
