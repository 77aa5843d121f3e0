"""Products in 8 bits: weights with a scale a column, activations with a scale a row, measured while the graph runs.

    before    MatMul(x, W)
    after     r = max |x| / 127 over a row;  q = QuantizeLinear(x / r, 1, 128);  c = max |W| / 127 over a column
              MatMulInteger(q, round(W / c), 128) → Cast → · c → · r

A scale a row keeps rows apart: whatever a row of the batch holds, the answers of the others have the same bits. What
DynamicQuantizeLinear offers, one scale for all, presses small rows into few levels where another row is large. The
bytes of activations are unsigned: with signed ones ONNX Runtime takes 15 to 20 times as long. An activation that
several products read is quantised once, and a table of embeddings that is also a weight is stored once.

Legend: x is [..., in], W [in, out], r [..., 1] and c [out].
Source: ONNX operator specification, MatMulInteger and QuantizeLinear.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.products import (
    Product,
    add_initializer,
    beyond_products,
    products_of,
    replace_product,
    replace_value,
)

LEAST_INPUTS = 8
"""Narrower products are left alone: the scale of a column is as large as four of its weights."""
_STEPS = 127
_ZERO_POINT = np.array(128, np.uint8)
_LEAST_SCALE = np.array(2.0**-100, np.float32)

Row = tuple[ir.Value, ir.Value]
_FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True)
class QuantiseDynamic(Rewrite):
    """Rewrite every product of an activation with a constant matrix, and lookups in the matrix if it is a table.

    Attributes:
        last_only: whether only products that are outputs of the graph are rewritten.
    """

    last_only: bool = False

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        result.refused += [] if self.last_only else beyond_products(graph)
        tape, rows = Tape(graph), dict[ir.Value, Row]()
        for product in products_of(graph):
            if self.last_only and not product.is_last:
                continue
            if product.sizes[0] < LEAST_INPUTS:
                result.refused.append(
                    f"{product.name}: its rows have {product.sizes[0]} numbers, less than {LEAST_INPUTS}"
                )
                continue
            multiply_integers(tape, graph, product, *_quantise_weight(tape, graph, product), rows)
            result.fired += 1


def multiply_integers(
    tape: Tape, graph: ir.Graph, product: Product, weight: ir.Value, scale: ir.Value, rows: dict[ir.Value, Row]
) -> None:
    """Let a product multiply integers.

    Args:
        tape: of the graph.
        graph: what the product is in.
        product: which one.
        weight: its matrix, int8 [in, out].
        scale: of each column.
        rows: an activation → its integers and their scales, as far as they are made.
    """
    if product.activation not in rows:
        rows[product.activation] = _quantise_rows(tape, graph, product.activation)
    levels, row_scale = rows[product.activation]
    whole = tape.op("MatMulInteger", [levels, weight, _zero_point(graph)])
    by_column = tape.op("Mul", [tape.op("Cast", [whole], {"to": ir.DataType.FLOAT.value}), scale])
    replace_product(tape, product, tape.op("Mul", [by_column, row_scale]))


def quantise_columns(matrix: _FloatArray) -> tuple[npt.NDArray[np.int8], _FloatArray]:
    """A matrix [in, out] in −127 … 127, and the scale of each column."""
    scale = np.abs(matrix).max(0) / np.float32(_STEPS)
    scale[scale == 0] = 1
    return np.rint(matrix / scale).astype(np.int8), scale


def _quantise_rows(tape: Tape, graph: ir.Graph, activation: ir.Value) -> Row:
    last, one = (
        add_initializer(graph, "row.axis", np.array([-1])),
        add_initializer(graph, "row.one", np.array(1, np.float32)),
    )
    steps, least = (
        add_initializer(graph, "row.steps", np.array(_STEPS, np.float32)),
        add_initializer(graph, "row.least_scale", _LEAST_SCALE),
    )
    largest = tape.op("ReduceMax", [tape.op("Abs", [activation]), last], {"keepdims": 1})
    scale = tape.op("Max", [tape.op("Div", [largest, steps]), least])
    return tape.op("QuantizeLinear", [tape.op("Div", [activation, scale]), one, _zero_point(graph)]), scale


def _quantise_weight(tape: Tape, graph: ir.Graph, product: Product) -> tuple[ir.Value, ir.Value]:
    table, (levels, scales) = product.weight, quantise_columns(product.matrix())
    lookups = [node for node in table.consumers() if is_lookup(node)] if product.transposed else []
    weight = add_initializer(graph, f"{table.name}.int8", np.ascontiguousarray(levels.T) if lookups else levels)
    scale = add_initializer(graph, f"{table.name}.scale", scales)
    for lookup in lookups:
        replace_value(lookup.outputs[0], look_up(tape, weight, scale, lookup.inputs[1]))
    return tape.op("Transpose", [weight], {"perm": [1, 0]}) if lookups else weight, scale


def is_lookup(node: ir.Node) -> bool:
    """Whether a node takes rows of a table."""
    return node.op_type == "Gather" and node.attributes.get_int("axis", 0) == 0


def look_up(tape: Tape, weight: ir.Value, scale: ir.Value, rows: ir.Value | None) -> ir.Value:
    """Rows of a table in 8 bits, times their scales."""
    levels = tape.op("Cast", [tape.op("Gather", [weight, rows])], {"to": ir.DataType.FLOAT.value})
    scales = tape.op("Gather", [scale, rows])
    return tape.op("Mul", [levels, tape.op("Unsqueeze", [scales, tape.op("Constant", [], {"value_ints": [-1]})])])


def _zero_point(graph: ir.Graph) -> ir.Value:
    return add_initializer(graph, "row.zero_point", _ZERO_POINT)
