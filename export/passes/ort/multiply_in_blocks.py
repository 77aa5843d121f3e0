"""Let Attendant's own operator multiply by weights in 4 and 8 bits, where a processor has the instructions for it.

    before    MatMul(x, DequantizeLinear(W, s[, z], axis=0, block_size=b))
    after     BlockedMatMul(x, W, s[, z]) {block = b}

    before    r = Max(ReduceMax(Abs(x)) / 127, least);  q = QuantizeLinear(x / r, 1, 128)
              MatMulInteger(q, W, 128) → Cast → · c → · r
    after     BlockedMatMul(x, W, c) {block = in}

ONNX Runtime fuses the first into MatMulNBits, which rounds activations as the operator does, and the second is what the
operator does (serving/runtime/ort/kernels/blocked_matmul.c). The weights stay where and as they are.

Legend: x [..., in], W [in, out] of 4 or 8 bits, s and z [⌈in / b⌉, out], c [out], r [..., 1].
"""

from collections.abc import Sequence
from typing import TypeGuard

import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.plugin_ops import NAMESPACE
from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.products import replace_value

OPERATOR = "BlockedMatMul"
_BLOCKS_OF, _MOST_BLOCK = 16, 65536
_IN_BLOCKS = (ir.DataType.INT4, ir.DataType.UINT4)
_STEPS, _MIDDLE = 127, 128


class MultiplyInBlocks(Rewrite):
    """Rewrite every product of a float32 activation with a constant matrix in 4 bits, and in 8 with a scale a row."""

    operators = frozenset({"DequantizeLinear", "MatMulInteger"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        tape = Tape(graph)
        for node in list(graph):
            if node.op_type == "MatMul":
                result.fired += _multiply_blocks(tape, node)
            elif node.op_type == "MatMulInteger":
                result.fired += _multiply_rows(tape, node)
        if result.fired:
            graph.opset_imports[NAMESPACE] = 1


def _multiply_blocks(tape: Tape, node: ir.Node) -> bool:
    activation, read = node.inputs
    made = _made_by(read, "DequantizeLinear")
    if made is None or made.attributes.get_int("axis", 1) != 0 or not all(_is_constant(one, 2) for one in made.inputs):
        return False
    weight, scale, block = made.inputs[0], made.inputs[1], made.attributes.get_int("block_size", 0)
    if not _is_constant(weight, 2) or weight.dtype not in _IN_BLOCKS or not _fits(_shape(weight)[0], block):
        return False
    if scale is None or scale.dtype != ir.DataType.FLOAT:
        return False
    replace_value(node.outputs[0], _multiply(tape, [activation, *made.inputs], block))
    return True


def _multiply_rows(tape: Tape, node: ir.Node) -> bool:
    rounded = _rounded_rows(node)
    cast = _only_reader(node, "Cast")
    by_column = None if cast is None else _only_reader(cast, "Mul")
    by_row = None if by_column is None else _only_reader(by_column, "Mul")
    if rounded is None or by_column is None or by_row is None:
        return False
    activation, row_scale = rounded
    scale, turned = by_column.inputs[1], _made_by(node.inputs[1], "Transpose")
    weight = node.inputs[1] if turned is None else turned.inputs[0]
    if row_scale not in by_row.inputs or not _is_constant(scale, 1) or not _is_constant(weight, 2):
        return False
    wide = _shape(weight)[0 if turned is None else 1]
    if weight.dtype != ir.DataType.INT8 or not _fits(wide, wide):
        return False
    replace_value(by_row.outputs[0], _multiply(tape, [activation, weight, scale], wide, turned is not None))
    return True


def _multiply(tape: Tape, inputs: Sequence[ir.Value | None], block: int, transposed: bool = False) -> ir.Value:
    attributes = {"block": block, "transposed": int(transposed)}
    return tape.op(OPERATOR, inputs, attributes, domain=NAMESPACE)


def _rounded_rows(product: ir.Node) -> tuple[ir.Value, ir.Value] | None:
    """The activation and the scale of its rows, of a product of integers that were rounded with a scale a row."""
    levels, zero = product.inputs[0], product.inputs[2] if len(product.inputs) == 3 else None
    rounding = _made_by(levels, "QuantizeLinear")
    quotient = None if rounding is None else _made_by(rounding.inputs[0], "Div")
    if rounding is None or quotient is None or not (_is(rounding.inputs[1], 1) and _is(zero, _MIDDLE)):
        return None
    activation, scale = quotient.inputs
    most = _made_by(scale, "Max")
    steps = None if most is None else _made_by(most.inputs[0], "Div")
    largest = None if steps is None or not _is(steps.inputs[1], _STEPS) else _made_by(steps.inputs[0], "ReduceMax")
    size = None if largest is None else _made_by(largest.inputs[0], "Abs")
    if largest is None or size is None or size.inputs[0] is not activation or not _is(largest.inputs[1], -1):
        return None
    assert activation is not None and scale is not None
    return activation, scale


def _made_by(value: ir.Value | None, operator: str) -> ir.Node | None:
    made = None if value is None else value.producer()
    return made if made is not None and made.op_type == operator else None


def _only_reader(node: ir.Node, operator: str) -> ir.Node | None:
    value = node.outputs[0]
    readers = list(value.consumers())
    alone = len(readers) == 1 and not value.is_graph_output()
    return readers[0] if alone and readers[0].op_type == operator else None


def _is(value: ir.Value | None, number: int) -> bool:
    constant = None if value is None else value.const_value
    return constant is not None and constant.size == 1 and constant.numpy().item() == number


def _is_constant(value: ir.Value | None, dimensions: int) -> TypeGuard[ir.Value]:
    return value is not None and value.is_initializer() and len(_shape(value)) == dimensions


def _shape(value: ir.Value) -> tuple[int, ...]:
    assert value.const_value is not None
    return tuple(value.const_value.shape.numpy())


def _fits(wide: int, block: int) -> bool:
    return _BLOCKS_OF <= block <= _MOST_BLOCK and block % _BLOCKS_OF == 0 and wide % _BLOCKS_OF == 0
