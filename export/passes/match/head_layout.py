"""Heads inside or outside of positions: how exported graphs take them apart and join them again.

Legend: B batch, T positions, H heads, D head size.
"""

import onnx_ir as ir
from onnx_ir.tape import Tape

HEADS_INSIDE = [0, 2, 1, 3]
"""Of a Transpose ``[B, T, H, D]`` → ``[B, H, T, D]``, and back."""


def producer(value: ir.Value | None, operator: str) -> ir.Node | None:
    """The node that computes a value, if it is of that operator."""
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type == operator else None


def exchanges_heads(node: ir.Node) -> bool:
    """Whether a node exchanges heads and positions."""
    return node.op_type == "Transpose" and list(node.attributes.get_ints("perm", ())) == HEADS_INSIDE


def flatten_heads(tape: Tape, heads_BHTD: ir.Value) -> ir.Value:
    """Heads side by side, ``[B, T, H·D]``: what they were taken apart from, or else nodes that join them."""
    transpose = heads_BHTD.producer()
    if transpose is not None and exchanges_heads(transpose):
        reshape = producer(transpose.inputs[0], "Reshape")
        if reshape is not None and reshape.inputs[0] is not None and len(reshape.inputs[0].shape or ()) == 3:
            return reshape.inputs[0]
    rows_BTHD = tape.op("Transpose", [heads_BHTD], {"perm": HEADS_INSIDE})
    return tape.op("Reshape", [rows_BTHD, tape.op("Constant", [], {"value_ints": [0, 0, -1]})])
