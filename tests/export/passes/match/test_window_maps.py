"""Who reads a value, where a pass is to change what it is."""

import pytest

from export.passes.match.attention_reach import RefusalError
from export.passes.match.window_maps import only_user
from tests.export.passes.layers import layer


def test_an_output_has_a_reader_beyond_the_graph():
    graph = layer(8, 8).graph
    product, total = graph
    assert only_user(product.outputs[0], "Add") is total
    graph.outputs.append(product.outputs[0])
    with pytest.raises(RefusalError, match=r"out goes to \['Add', 'an output'\], not to one Add"):
        only_user(product.outputs[0], "Add")
