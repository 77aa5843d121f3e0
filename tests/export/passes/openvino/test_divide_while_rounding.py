"""The pass on products in 8 bits: the same integers, by fewer operators."""

import numpy as np
import onnx_ir as ir
import pytest

from export.passes.openvino.divide_while_rounding import DivideWhileRounding
from export.passes.quantise.quantise_dynamic import QuantiseDynamic
from tests.export.passes.layers import answers, layer

WIDTH = 48


@pytest.fixture
def quantised():
    """A layer in 8 bits."""
    model = layer(WIDTH, 8)
    QuantiseDynamic()(model)
    return model


def operators(model):
    return [node.op_type for node in model.graph]


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (2, 70)], ids=str)
def test_answers_have_the_same_bits(quantised, shape):
    x = np.random.default_rng(3).standard_normal((*shape, WIDTH)).astype(np.float32)
    x[0, 0], x[-1, -1, 5] = 0, 900  # a row of zeros, and one that is far larger than the rest
    before = answers(quantised, x)
    assert DivideWhileRounding()(quantised).fired == 1
    np.testing.assert_array_equal(answers(quantised, x), before)  # the same integers


def test_the_node_takes_each_row_as_one_block(quantised):
    DivideWhileRounding()(quantised)
    node = next(node for node in quantised.graph if node.op_type == "QuantizeLinear")
    assert node.inputs[0].name == "x"
    assert (node.attributes.get_int("axis"), node.attributes.get_int("block_size")) == (-1, WIDTH)


def test_a_second_run_fires_nothing(quantised):
    DivideWhileRounding()(quantised)
    before = operators(quantised)
    assert DivideWhileRounding()(quantised).fired == 0
    assert operators(quantised) == before


def test_every_quotient_of_a_decoder_goes_and_equal_rows_share_their_zero_points(tiny_translator):
    decoder = ir.load(tiny_translator / "decoder.onnx")
    expanded = operators(decoder).count("Expand")
    QuantiseDynamic()(decoder)
    rows = operators(decoder).count("QuantizeLinear")
    divided = operators(decoder).count("Div")
    assert DivideWhileRounding()(decoder).fired == rows == 13
    assert operators(decoder).count("Div") == divided - rows
    shared = operators(decoder).count("Expand") - expanded
    assert 0 < shared < rows / 2


def test_a_scale_that_is_not_one_is_left_alone(quantised):
    node = next(node for node in quantised.graph if node.op_type == "QuantizeLinear")
    quantised.graph.initializers["row.one"].const_value = ir.tensor(np.array(2, np.float32))
    assert DivideWhileRounding()(quantised).fired == 0
    assert node.inputs[0].producer().op_type == "Div"
