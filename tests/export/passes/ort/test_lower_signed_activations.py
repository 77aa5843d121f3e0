"""The pass on a graph of static int8: the same numbers, 128 higher."""

import numpy as np
import onnx_ir as ir
import pytest

from export.passes.ort.lower_signed_activations import LowerSignedActivations
from export.passes.quantise.quantise_static import QuantiseStatic
from tests.export.passes.layers import answers, layer


@pytest.fixture
def quantised():
    """A layer in static int8, for x up to 2."""
    model = layer(16, 8)
    QuantiseStatic({"x": 2.0})(model)
    return model


def test_activations_become_unsigned_and_weights_stay_signed(quantised):
    assert LowerSignedActivations()(quantised).fired == 1
    types = {node.op_type: [value.dtype for value in node.inputs] for node in quantised.graph}
    assert types["QuantizeLinear"][2] == ir.DataType.UINT8
    assert quantised.graph.initializers["weight.int8"].dtype == ir.DataType.INT8
    assert int(quantised.graph.initializers["uint8.zero_point"].const_value.numpy()) == 128


@pytest.mark.parametrize("largest", [1.0, 2.0, 50.0], ids=["within", "at the bound", "far beyond"])
def test_every_number_rounds_and_saturates_as_before(quantised, largest):
    x = np.linspace(-largest, largest, 2 * 3 * 16, dtype=np.float32).reshape(2, 3, 16)
    x.ravel()[:5] = np.float32([0.5, -0.5, 1.5, 2.5, -1.5]) * np.float32(2 / 127)  # halves go to the even neighbour
    before = rounded(quantised, x)
    LowerSignedActivations()(quantised)
    np.testing.assert_array_equal(rounded(quantised, x), before)  # the same integers


def rounded(model, x):
    """What the products are fed."""
    clone = ir.from_proto(ir.to_proto(model))
    value = next(node.outputs[0] for node in clone.graph if node.outputs[0].name == "x.rounded")
    clone.graph.outputs[0] = value
    return answers(clone, x)


def test_a_second_run_fires_nothing(quantised):
    LowerSignedActivations()(quantised)
    assert LowerSignedActivations()(quantised).fired == 0


def test_integers_that_another_operator_reads_are_refused_by_name(quantised):
    integers = next(node.outputs[0] for node in quantised.graph if node.op_type == "QuantizeLinear")
    quantised.graph.append(ir.node("Identity", [integers]))
    outcome = LowerSignedActivations()(quantised)
    assert (outcome.fired, outcome.refused) == (
        0,
        ["x.int8: its integers are read by more than DequantizeLinear"],
    )


def test_a_graph_in_float32_is_left_alone():
    assert LowerSignedActivations()(layer(16, 8)).fired == 0
