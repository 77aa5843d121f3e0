"""Multiply queries by the scale of the scores before Attention, which then has none.

    before    Attention(Q, K, V) <scale = s>             s = 1/√D where it is left out
    after     Attention(s Q, K, V) <scale = 1>

TensorRT's attention has no scale: its parser multiplies Q and K by √s each, in their own type, and so reads the whole
cache once more at every step; in bfloat16 the factor is up to 0.3 % off. Queries are multiplied in float32, and rounded
once, unless s is a number of their type (1/√D is, where D is 16, 64 or 256): then nothing is rounded at all.

Legend: D head size.
Source: onnx-tensorrt, AttentionHelpers.cpp, scaleQKTensor.
"""

import numpy as np
import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.products import add_initializer

_WIDE = ir.DataType.FLOAT


class ScaleQueries(Rewrite):
    """Rewrite every Attention whose scale is not 1."""

    operators = frozenset({"Attention"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        tape = Tape(graph)
        for node in [node for node in graph if node.op_type == "Attention" and not node.domain]:
            scale = _scale_of(node)
            if scale is None:
                result.missed.append(f"{node.outputs[0].name}: the size of its heads is not known")
            elif node.attributes.get_float("scale", 0.0) != 1.0:
                if scale != 1.0:
                    _multiply(tape, graph, node, scale)
                node.attributes["scale"] = ir.AttrFloat32("scale", 1.0)
                result.fired += 1


def _scale_of(node: ir.Node) -> float | None:
    stated = node.attributes.get_float("scale", 0.0)
    queries = node.inputs[0]
    size = None if queries is None or queries.shape is None or len(queries.shape) != 4 else queries.shape[3]
    if stated:
        return stated
    return float(size) ** -0.5 if isinstance(size, int) else None


def _multiply(tape: Tape, graph: ir.Graph, node: ir.Node, scale: float) -> None:
    queries = node.inputs[0]
    assert queries is not None and queries.dtype is not None
    exact = queries.dtype == _WIDE or float(queries.dtype.numpy().type(scale)) == scale
    dtype = queries.dtype if exact else _WIDE
    name = f"queries.scale.{scale:.9g}.{dtype.name.lower()}"
    factor = add_initializer(graph, name, np.array(scale, dtype.numpy()))
    scaled = tape.op("Mul", [_as(tape, queries, dtype), factor])
    scaled.shape, scaled.type = queries.shape, ir.TensorType(dtype)
    node.replace_input_with(0, _as(tape, scaled, queries.dtype))


def _as(tape: Tape, value: ir.Value, dtype: ir.DataType) -> ir.Value:
    if value.dtype == dtype:
        return value
    cast = tape.op("Cast", [value], {"to": dtype.value})
    cast.shape, cast.type = value.shape, ir.TensorType(dtype)
    return cast
