"""The pass on products in 8 bits: columns are scaled by the node that multiplies."""

import numpy as np
import onnx_ir as ir
import pytest

from export.passes.openvino.scale_in_products import ScaleInProducts
from export.passes.quantise.quantise_dynamic import QuantiseDynamic
from tests.export.passes.layers import activation, answers, layer

WIDTH, OUT = 48, 24


@pytest.fixture
def quantised():
    """A layer in 8 bits that is not the last one of its graph."""
    model = layer(WIDTH, OUT)
    after = ir.node("Relu", [model.graph.outputs[0]], outputs=[activation("z", OUT)])
    model.graph.append(after)
    model.graph.outputs[0] = after.outputs[0]
    QuantiseDynamic()(model)
    return model


def operators(model):
    return [node.op_type for node in model.graph]


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (2, 70)], ids=str)
def test_answers_stay_what_they_were(quantised, shape):
    x = np.random.default_rng(3).standard_normal((*shape, WIDTH)).astype(np.float32)
    before = answers(quantised, x)
    assert ScaleInProducts()(quantised).fired == 1
    assert "MatMulIntegerToFloat" in operators(quantised)
    np.testing.assert_allclose(answers(quantised, x), before, rtol=1e-6, atol=1e-6)


def test_no_conversion_is_left(quantised):
    muls = operators(quantised).count("Mul")
    ScaleInProducts()(quantised)
    assert "Cast" not in operators(quantised)
    assert operators(quantised).count("Mul") == muls - 1


def test_a_second_run_fires_nothing(quantised):
    ScaleInProducts()(quantised)
    before = operators(quantised)
    assert ScaleInProducts()(quantised).fired == 0
    assert operators(quantised) == before


def test_the_last_product_of_a_decoder_stays(tiny_translator):
    decoder = ir.load(tiny_translator / "decoder.onnx")
    QuantiseDynamic()(decoder)
    assert ScaleInProducts()(decoder).fired == 16
    assert operators(decoder).count("MatMulInteger") == 1


def test_integers_that_are_also_read_otherwise_stay(quantised):
    integers = next(node.outputs[0] for node in quantised.graph if node.op_type == "MatMulInteger")
    quantised.graph.append(ir.node("Identity", [integers]))
    assert ScaleInProducts()(quantised).fired == 0
