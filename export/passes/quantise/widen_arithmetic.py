"""Compute a graph of a narrow floating-point type in float32, rounding wherever the narrow graph does.

    before    MatMul(X, W)                          X, W and the result narrow
    after     Cast(MatMul(Cast(X), Cast(W)))        the casts to float32 exact, the outer one the rounding

So a runtime without kernels of that type (ONNX Runtime's CPU provider and bfloat16) computes what the type's own
kernels would, if they add in float32. Inputs and outputs of the narrow type become float32 with the same numbers.
"""

from dataclasses import dataclass

import onnx_ir as ir

from export.graph.rewrite import Rewrite, RewriteResult

_WIDE = ir.DataType.FLOAT
_STATING = frozenset({"Cast", "Constant", "ConstantOfShape"})
"""Operators whose type is written in an attribute."""


@dataclass(frozen=True)
class WidenArithmetic(Rewrite):
    """Put every operator on numbers of a narrow type between Casts.

    Attributes:
        dtype: FLOAT16 or BFLOAT16.
    """

    dtype: ir.DataType

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        for each in (graph, *graph.subgraphs()):
            self._widen_graph(each, result)

    def _widen_graph(self, graph: ir.Graph, result: RewriteResult) -> None:
        dtype = self.dtype
        for value in [value for value in graph.inputs if value.dtype == dtype]:
            value.dtype = _WIDE
            rounded = _cast(graph, value, dtype, f"{value.name}.rounded")
            value.replace_all_uses_with(rounded, replace_graph_outputs=True)
            rounded.producer().replace_input_with(0, value)  # type: ignore[union-attr]
        for node in [node for node in graph if node.op_type not in _STATING]:
            result.fired += _widen(graph, node, dtype)
        for at, value in enumerate(graph.outputs):
            if value.dtype == dtype:
                name, value.name = value.name, f"{value.name}.rounded"
                graph.outputs[at] = _cast(graph, value, _WIDE, str(name))


def _widen(graph: ir.Graph, node: ir.Node, dtype: ir.DataType) -> bool:
    narrow = [value for value in (*node.inputs, *node.outputs) if value is not None and value.dtype == dtype]
    for at, value in enumerate(node.inputs):
        if value is not None and value.dtype == dtype:
            node.replace_input_with(at, _cast(graph, value, _WIDE, f"{value.name}.wide.{id(node)}.{at}"))
    for value in node.outputs:
        if value.dtype == dtype:
            name, value.name, value.dtype = value.name, f"{value.name}.wide", _WIDE
            rounded = _cast(graph, value, dtype, str(name))
            value.replace_all_uses_with(rounded, replace_graph_outputs=True)
            rounded.producer().replace_input_with(0, value)  # type: ignore[union-attr]
    return bool(narrow)


def _cast(graph: ir.Graph, value: ir.Value, dtype: ir.DataType, name: str) -> ir.Value:
    node = ir.node("Cast", [value], {"to": dtype.value})
    node.outputs[0].name, node.outputs[0].dtype, node.outputs[0].shape = name, dtype, value.shape
    graph.append(node)
    return node.outputs[0]
