"""End products in blocks with what follows them: a bias, an activation, a gate, and what is added.

    before    f(BlockedMatMul(x, W, s) + d) + r                 f: GELU by tanh or erf, or p · Sigmoid(p)
    after     BlockedMatMul(x, W, s, , d, r) {activation}

    before    g, u = Split(BlockedMatMul(x, [G U], s) + d);  f(g) · u
    after     BlockedMatMul(x, [G U], s, , d) {activation, gated}

The operator has them while they are in registers; by themselves they are a tenth of the time of a prompt, and a launch
each in a step (docs/log.md). Precondition: :class:`export.passes.ort.multiply_in_blocks.MultiplyInBlocks` ran before.

Legend: x [..., in], W [in, out], d [out], r [..., out].
"""

import onnx_ir as ir

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.products import replace_value
from export.passes.ort.multiply_in_blocks import OPERATOR

_SCALE, _BIAS, _ADDED = 2, 4, 5
_GELUS, _SILU = {"tanh": 1, "none": 3}, 2


class FinishProducts(Rewrite):
    """Rewrite every product in blocks whose result one of these reads alone."""

    operators = frozenset({OPERATOR})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        for node in [node for node in graph if node.op_type == OPERATOR]:
            taken = [_take_bias(graph, node), _take_activation(graph, node), _take_sum(graph, node)]
            result.fired += any(taken)


def _take_bias(graph: ir.Graph, product: ir.Node) -> bool:
    scale = product.inputs[_SCALE]
    for total in _readers(product.outputs[0], "Add"):
        bias = _other(total, product.outputs[0])
        if bias is None or scale is None or bias.shape is None or scale.shape is None:
            return False
        if bias.is_initializer() and list(bias.shape) == list(scale.shape[-1:]):
            _take(graph, product, total)
            _add_input(product, _BIAS, bias)
            return True
    return False


def _take_activation(graph: ir.Graph, product: ir.Node) -> bool:
    result = product.outputs[0]
    if (found := _activation(result)) is not None:
        kind, *nodes = found
        product.attributes.add(ir.AttrInt64("activation", kind))
        _take(graph, product, *nodes)
        return True
    for split in _readers(result, "Split"):
        found = _activation(split.outputs[0]) if _is_in_halves(split) else None
        if found is None:
            return False
        kind, *nodes = found
        for scaled in _readers(nodes[0].outputs[0], "Mul"):
            if list(split.outputs[1].consumers()) == [scaled] and not split.outputs[1].is_graph_output():
                product.attributes.add(ir.AttrInt64("activation", kind))
                product.attributes.add(ir.AttrInt64("gated", 1))
                _take(graph, product, scaled, *nodes, split)
                return True
    return False


def _take_sum(graph: ir.Graph, product: ir.Node) -> bool:
    result = product.outputs[0]
    for total in _readers(result, "Add"):
        added = _other(total, result)
        if added is not None and not added.is_initializer() and _is_known(added) and added.shape == result.shape:
            _take(graph, product, total)
            _add_input(product, _ADDED, added)
            return True
    return False


def _activation(value: ir.Value) -> tuple[int, *tuple[ir.Node, ...]] | None:
    """Which one is all that reads a value, and its nodes, the last of them first."""
    for gelu in _readers(value, "Gelu"):
        return _GELUS[gelu.attributes.get_string("approximate", "none")], gelu
    by_name = {node.op_type: node for node in value.consumers()}
    if by_name.keys() != {"Sigmoid", "Mul"} or len(value.uses()) != 2 or value.is_graph_output():
        return None
    sigmoid, scaled = by_name["Sigmoid"], by_name["Mul"]
    return (_SILU, scaled, sigmoid) if _readers(sigmoid.outputs[0], "Mul") == [scaled] else None


def _is_in_halves(split: ir.Node) -> bool:
    widths = [None if one.shape is None else one.shape[-1] for one in split.outputs]
    behind = split.attributes.get_int("axis", 0) == -1
    return behind and len(widths) == 2 and isinstance(widths[0], int) and widths[0] == widths[1]


def _is_known(value: ir.Value) -> bool:
    sizes = [] if value.shape is None else list(value.shape)
    return bool(sizes) and all(isinstance(size, int) or size.value is not None for size in sizes)


def _readers(value: ir.Value, operator: str) -> list[ir.Node]:
    """The node that alone reads a value, once, if it is of that operator."""
    alone = len(value.uses()) == 1 and not value.is_graph_output()
    return [node for node in value.consumers() if alone and node.op_type == operator]


def _add_input(node: ir.Node, index: int, value: ir.Value) -> None:
    node.resize_inputs(index + 1)
    node.replace_input_with(index, value)


def _other(node: ir.Node, value: ir.Value) -> ir.Value | None:
    return next((one for one in node.inputs if one is not value), None)


def _take(graph: ir.Graph, product: ir.Node, last: ir.Node, *others: ir.Node) -> None:
    replace_value(last.outputs[0], product.outputs[0])
    for node in (last, *others):
        graph.remove(node, safe=True)
