"""Keep integer division within what a processor can: ONNX Runtime ends the process at the smallest integer over -1.

    before    Div(a, b)                                        Mod(a, b)
    after     Where(b = -1, Neg(a), Div(a, b′))                Mod(a, b′)              b′ = Where(b = -1, 1, b)

All other quotients and remainders are as they were; a division by 0 stays the error that ONNX Runtime makes of it.

Source: x86's IDIV, whose quotient of the smallest integer and -1 is out of range: SIGFPE; ONNX Runtime 1.31.1.
"""

import numpy as np
import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.products import add_initializer, replace_value

_SIGNED = {ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64}
_ONE = "division.one"


class GuardIntegerDivision(Rewrite):
    """Rewrite every Div and Mod of signed integers whose divisor is computed."""

    operators = frozenset({"Div", "Mod"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        for node in list(graph):
            if node.op_type not in self.operators or not _is_computed(node.inputs[1]):
                continue
            dividend, divisor = node.inputs
            assert divisor is not None and divisor.dtype is not None
            kind = divisor.dtype.numpy()
            one, minus_one = (
                add_initializer(graph, f"{name}.{kind}", np.array(number, kind))
                for name, number in ((_ONE, 1), ("division.minus_one", -1))
            )
            tape = Tape()
            is_minus_one = tape.op("Equal", [divisor, minus_one])
            safe = tape.op("Where", [is_minus_one, one, divisor])
            computed = tape.op(node.op_type, [dividend, safe], node.attributes)
            if node.op_type == "Div":
                computed = tape.op("Where", [is_minus_one, tape.op("Neg", [computed]), computed])
            replace_value(node.outputs[0], computed)
            graph.insert_before(node, tape.nodes)
            result.fired += 1


def _is_computed(divisor: ir.Value | None) -> bool:
    if divisor is None or divisor.dtype not in _SIGNED or divisor.const_value is not None:
        return False
    made_by = divisor.producer()
    read = made_by.inputs[1] if made_by is not None and made_by.op_type == "Where" else None
    return read is None or not str(read.name).startswith(_ONE)
