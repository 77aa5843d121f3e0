"""Operators that move numbers and change none: made, and what stands in front of a chain of them.

Source: ONNX operator specification, Reshape, Transpose and Gather.
"""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from onnx_ir.tape import Tape

from export.passes.match.products import add_initializer

_MOVES = frozenset({"Gather", "Reshape", "Transpose"})


def moved_by(value: ir.Value | None) -> ir.Node | None:
    """The node that only moves a value's numbers from its first input; none where they are computed or given."""
    node = None if value is None else value.producer()
    if node is None or node.op_type not in _MOVES or node.domain:
        return None
    if node.op_type != "Gather":
        return node
    source, places = node.inputs
    assert source is not None and places is not None
    return node if places.const_value is not None and source.shape == node.outputs[0].shape else None


def before_moves(value: ir.Value) -> tuple[ir.Value, list[ir.Node]]:
    """What a value is before it is moved, and the moves in order; nothing else reads or returns what stands between."""
    moves: list[ir.Node] = []
    while (node := moved_by(value)) is not None and len(value.uses()) + value.is_graph_output() == 1:
        assert node.inputs[0] is not None
        moves.insert(0, node)
        value = node.inputs[0]
    return value, moves


def reshape(tape: Tape, graph: ir.Graph, value: ir.Value, sizes: Sequence[int]) -> ir.Value:
    """A value of known shape with other sizes behind its first axis."""
    assert value.shape is not None
    shape = add_initializer(graph, "shape." + "x".join(map(str, sizes)), np.array([-1, *sizes], np.int64))
    made = tape.op("Reshape", [value, shape])
    made.shape, made.type = ir.Shape([value.shape[0], *sizes]), value.type
    return made
