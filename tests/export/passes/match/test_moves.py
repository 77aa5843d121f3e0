"""What only moves numbers, by a chain of its operators."""

import numpy as np
import onnx_ir as ir
import pytest
from onnx_ir.tape import Tape

from export.passes.match.moves import before_moves
from export.passes.match.products import add_initializer


@pytest.fixture
def graph():
    x, places = (
        ir.Value(name=name, shape=ir.Shape(sizes), type=ir.TensorType(dtype))
        for name, sizes, dtype in (("x", [2, 3], ir.DataType.FLOAT), ("places", [2], ir.DataType.INT64))
    )
    return ir.Graph([x, places], [], nodes=[], opset_imports={"": 24})


def test_a_reshape_to_sizes_of_a_run_moves_and_a_gather_of_places_of_a_run_does_not(graph):
    tape, (x, places) = Tape(graph), graph.inputs
    moved = tape.op("Transpose", [tape.op("Reshape", [x, tape.op("Shape", [x])])], {"perm": [1, 0]})
    graph.outputs.append(moved)
    source, moves = before_moves(moved)
    assert (source, [move.op_type for move in moves]) == (x, ["Reshape", "Transpose"])
    for indices, is_move in ((places, False), (add_initializer(graph, "order", np.array([1, 0])), True)):
        chosen = tape.op("Gather", [x, indices])
        chosen.shape = ir.Shape([2, 3])
        graph.outputs.append(chosen)
        assert (before_moves(chosen)[0] is x) == is_move
