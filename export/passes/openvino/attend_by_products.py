"""Write attention under a bias or a mask as its two products and the softmax between them, which OpenVINO runs as one.

    before    Attention(Q, K, V, bias)                 bias: constant
    after     Softmax(Q · scale @ Kᵀ + bias) @ V

    before    Attention(Q, K, V, mask)                 mask: boolean, of a run
    after     (Softmax(Q · scale @ Kᵀ − unseen · 10³⁰) · max seen) @ V,   seen = Cast(mask), unseen = Cast(Not mask)

OpenVINO 2026.4 takes such Attention apart with a guard for rows that see nothing, and does not put it together again. A
constant bias that has such rows stays with the guard: the softmax of −∞ alone is no number. Under a mask their weights
are zeros, as Attention's are; 10³⁰ is finite in bfloat16 too. Of (seen − 1) · 10³⁰ OpenVINO may add −10³⁰ to scores
first, which are nothing beside it.

Under a mask over a single key, whose weight is one or zero, OpenVINO takes it for seen, or never for seen, by either:

    before    Attention(Q, K, V, mask)                 K, V: one position
    after     V · Cast(mask), once for each position of Q

Legend: B batch, H heads, P positions, D head size.
Source: ONNX operator specification, Attention; Vaswani et al. 2017, section 3.2.1.
"""

import math

import numpy as np
import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.products import add_initializer, replace_value
from export.passes.match.score_factors import bias_of, is_masked, sees_all

_UNSEEN = -1e30
_EXCHANGED = [0, 1, 3, 2]


class AttendByProducts(Rewrite):
    """Rewrite every Attention under a constant bias or a mask, of as many heads of keys as of queries.

    It is of float32, or has a single key.
    """

    operators = frozenset({"Attention"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        tape, masks = Tape(graph), dict[ir.Value, tuple[ir.Value, ir.Value]]()
        for node in [node for node in graph if is_masked(node) or (sees_all(node) and bias_of(node))]:
            if _has_one_key(node):
                replace_value(node.outputs[0], _seen_value(tape, node))
                graph.remove(node, safe=True)
                result.fired += 1
                continue
            if (why := _beyond(node)) is not None:
                result.refused.append(f"{node.outputs[0].name}: {why}")
                continue
            queries, keys, values, bias = node.inputs
            assert queries is not None and queries.shape is not None and bias is not None
            size = queries.shape[3]
            assert isinstance(size, int)
            scale = node.attributes.get_float("scale", 1 / math.sqrt(size))
            factor = add_initializer(graph, f"scale.{scale:.9g}", np.array(scale, np.float32))
            exchanged = tape.op("Transpose", [keys], {"perm": _EXCHANGED})
            scores = tape.op("MatMul", [tape.op("Mul", [queries, factor]), exchanged])
            added, seen = bias, None
            if is_masked(node):
                masks[bias] = added, seen = masks.get(bias) or _added_and_seen(tape, graph, bias)
            weights = tape.op("Softmax", [tape.op("Add", [scores, added])], {"axis": -1})
            attended = tape.op("MatMul", [tape.op("Mul", [weights, seen]) if seen else weights, values])
            replace_value(node.outputs[0], attended)
            graph.remove(node, safe=True)
            result.fired += 1


def _added_and_seen(tape: Tape, graph: ir.Graph, mask: ir.Value) -> tuple[ir.Value, ir.Value]:
    """What a mask adds to scores, and for each row whether it sees anything, 1 or 0."""
    far = add_initializer(graph, f"mask.{_UNSEEN:g}", np.array(_UNSEEN, np.float32))
    last = add_initializer(graph, "mask.last_axis", np.array([-1]))
    seen, unseen = (tape.op("Cast", [one], {"to": ir.DataType.FLOAT}) for one in (mask, tape.op("Not", [mask])))
    return tape.op("Mul", [unseen, far]), tape.op("ReduceMax", [seen, last], {"keepdims": 1})


def _has_one_key(node: ir.Node) -> bool:
    """Whether a node attends to one position under a mask, with as many heads of values as of queries."""
    shapes = [value.shape for value in node.inputs[:2] if value is not None and value.shape is not None]
    whole = len(shapes) == 2 and all(len(shape) == 4 for shape in shapes)
    return whole and is_masked(node) and shapes[1][2] == 1 and shapes[0][1] == shapes[1][1]


def _seen_value(tape: Tape, node: ir.Node) -> ir.Value:
    queries, _, values, mask = node.inputs
    assert queries is not None and values is not None and mask is not None and values.dtype is not None
    ones, places = tape.op("Constant", [], {"value_ints": [1, 1]}), tape.op("Shape", [queries], {"start": 2, "end": 3})
    last = tape.op("Constant", [], {"value_ints": [1]})
    seen = tape.op("Cast", [mask], {"to": values.dtype})
    shape = tape.op("Concat", [ones, places, last], {"axis": 0})
    return tape.op("Mul", [tape.op("Expand", [values, shape]), seen])


def _beyond(node: ir.Node) -> str | None:
    shapes = [None if value is None else value.shape for value in node.inputs[:2]]
    if any(shape is None or len(shape) != 4 for shape in shapes) or shapes[0][1] != shapes[1][1]:  # type: ignore[index]
        return "its heads are not an axis of their own, or differ in number"
    bias = bias_of(node)
    assert bias is not None
    floats = node.inputs[:3] if is_masked(node) else node.inputs
    if any(value is None or value.dtype != ir.DataType.FLOAT for value in floats):
        return "it is not of float32"
    if node.attributes.get_int("is_causal", 0) or node.attributes.get_float("softcap", 0):
        return "it is causal, or caps its scores"
    if bias.const_value is None:
        return None
    return "its bias has a row that sees nothing" if np.isneginf(bias.const_value.numpy()).all(-1).any() else None
