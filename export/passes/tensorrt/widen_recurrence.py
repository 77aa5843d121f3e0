"""Keep recurrent layers in float32 in a graph of a narrower type.

    before    GRU(X, W, R, B, n, h)                               all narrow
    after     Cast(GRU(Cast(X), W', R', B', n, Cast(h)))          W', R', B' the same numbers in float32

TensorRT's parser makes a loop of them, in which an initial state that is left out is a zero of type FLOAT, as a GRU's
constants are but in half precision: in a strongly typed network that is an error, with other types beside it. Weights
are stored in float32 rather than cast, so that the parser finds constants.

Source: onnx-tensorrt, onnxOpImporters.cpp, GRU, RNN and LSTM; RNNHelpers.cpp.
"""

import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.products import add_initializer

RECURRENT = frozenset({"GRU", "LSTM", "RNN"})
_WIDE = ir.DataType.FLOAT
_NARROW = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


class WidenRecurrence(Rewrite):
    """Rewrite every recurrent node that has a number of a narrower type."""

    operators = RECURRENT

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        tape = Tape(graph)
        for node in [node for node in graph if node.op_type in RECURRENT]:
            narrow = [at for at, value in enumerate(node.inputs) if value is not None and value.dtype in _NARROW]
            if narrow:
                _widen(tape, graph, node, narrow)
                result.fired += 1


def _widen(tape: Tape, graph: ir.Graph, node: ir.Node, narrow: list[int]) -> None:
    for at in narrow:
        value = node.inputs[at]
        assert value is not None
        node.replace_input_with(at, _constant(graph, value) if value.is_initializer() else _cast(tape, value, _WIDE))
    for value in node.outputs:
        if value.dtype in _NARROW and not (value.uses() or value.is_graph_output()):
            value.type = ir.TensorType(_WIDE)
        elif value.dtype in _NARROW:
            rounded = _cast(tape, value, value.dtype)
            name, value.type = value.name, ir.TensorType(_WIDE)
            value.replace_all_uses_with(rounded, replace_graph_outputs=True)
            rounded.producer().replace_input_with(0, value)  # type: ignore[union-attr]
            value.name, rounded.name = f"{name}.float32", name


def _constant(graph: ir.Graph, value: ir.Value) -> ir.Value:
    tensor = value.const_value
    assert tensor is not None
    readers = {user for user, _ in value.uses()}
    wide = add_initializer(graph, f"{value.name}.float32", tensor.numpy().astype(_WIDE.numpy()))
    if all(user.op_type in RECURRENT for user in readers):
        ir.convenience.replace_all_uses_with(value, wide)
    return wide


def _cast(tape: Tape, value: ir.Value, dtype: ir.DataType) -> ir.Value:
    cast = tape.op("Cast", [value], {"to": dtype.value})
    cast.shape, cast.type = value.shape, ir.TensorType(dtype)
    return cast
