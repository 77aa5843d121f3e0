"""Who reads a value, and of which sizes it is, where a pass is to change it."""

import onnx_ir as ir
import pytest

from export.passes.match.attention_reach import RefusalError
from export.passes.match.window_maps import only_user, require_sizes
from tests.export.passes.layers import layer


def test_an_output_has_a_reader_beyond_the_graph():
    graph = layer(8, 8).graph
    product, total = graph
    assert only_user(product.outputs[0], "Add") is total
    graph.outputs.append(product.outputs[0])
    with pytest.raises(RefusalError, match=r"out goes to \['Add', 'an output'\], not to one Add"):
        only_user(product.outputs[0], "Add")


def test_sizes_are_those_between_the_first_axis_and_the_last():
    value = ir.Value(name="x", shape=ir.Shape(["batch", 4, "places", 8]))
    require_sizes(ir.Value(shape=ir.Shape(["batch", 4, 9, 8])), 4, 9)
    for wrong in (value, ir.Value(), ir.Value(shape=ir.Shape(["batch", 9, 4, 8])), ir.Value(shape=ir.Shape([4, 9]))):
        with pytest.raises(RefusalError, match=r"not \[4, 9\]"):
            require_sizes(wrong, 4, 9)
