"""Let QuantizeLinear divide rows by their scales itself: as blocks, each as long as its row.

    before    QuantizeLinear(x / r, 1, 128)
    after     QuantizeLinear(x, r, 128 for each row, axis=-1, block_size=in)

The same operations on the same numbers, in one pass over them. It is of the standard, but not for every runtime that
reads the standard: TensorRT takes blocks for weights alone.

Legend: x [..., in], r [..., 1].
Source: ONNX operator specification, QuantizeLinear, block_size; ONNX Runtime 1.31 rounds blocks on all its threads.
"""

import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult

_Sizes = tuple[int | str, ...]


class DivideWhileRounding(Rewrite):
    """Rewrite each QuantizeLinear of a quotient by a row's scale (:mod:`export.passes.quantise.quantise_dynamic`)."""

    operators = frozenset({"QuantizeLinear"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        tape, zeros = Tape(graph), dict[_Sizes, ir.Value]()
        for node in [node for node in graph if node.op_type == "QuantizeLinear"]:
            quotient = node.inputs[0].producer() if node.inputs[0] is not None else None
            # As many as its product sums over: the weight's rows, or its columns before it is turned.
            product = next(
                (user for user in node.outputs[0].consumers() if user.op_type.startswith("MatMulInteger")), None
            )
            weight = None if product is None else product.inputs[1]
            turned = None if weight is None else weight.producer()
            stored, axis = (weight, 0) if turned is None else (turned.inputs[0], 1)
            size = None if stored is None or stored.shape is None else stored.shape[axis]
            width = size if isinstance(size, int) else None
            if quotient is None or quotient.op_type != "Div" or width is None or not _divides_by_rows(node, quotient):
                continue
            row, scale = quotient.inputs
            zero = _zero_of_rows(tape, zeros, row, scale, node.inputs[2])
            for index, value in enumerate((row, scale, zero)):
                node.replace_input_with(index, value)
            node.attributes.add(ir.AttrInt64("axis", -1))
            node.attributes.add(ir.AttrInt64("block_size", width))
            result.fired += 1


def _divides_by_rows(node: ir.Node, quotient: ir.Node) -> bool:
    unit, scale = node.inputs[1], quotient.inputs[1]
    largest = None if scale is None else scale.producer()
    if unit is None or unit.const_value is None or unit.const_value.size != 1 or float(unit.const_value.numpy()) != 1:
        return False
    return largest is not None and largest.op_type == "Max"


def _zero_of_rows(
    tape: Tape, zeros: dict[_Sizes, ir.Value], row: ir.Value | None, scale: ir.Value | None, zero: ir.Value | None
) -> ir.Value:
    assert row is not None and scale is not None
    # An exporter's symbol is one size wherever it stands, so equal rows share their zero points.
    sizes = _sizes(row)
    if sizes is None or sizes not in zeros:
        made = tape.op("Expand", [zero, tape.op("Shape", [scale])])
        if sizes is None:
            return made
        zeros[sizes] = made
    return zeros[sizes]


def _sizes(row: ir.Value) -> _Sizes | None:
    if row.shape is None:
        return None
    sizes = [size.value if isinstance(size, ir.SymbolicDim) else size for size in row.shape[:-1]]
    return None if any(size is None for size in sizes) else tuple(size for size in sizes if size is not None)
