"""Constraints on QuantizeLinear and DequantizeLinear beyond those of whole_graph."""

from export.targets.constraints.forms import of_nodes, shape_text
from export.targets.constraints.graph import QUANTIZERS, Graph, Node
from export.targets.constraints.sources import QUANTIZE_LAYER

_MOST_AXES = 2


@of_nodes(
    "activation-scale",
    QUANTIZERS,
    "QuantizeLinear, DequantizeLinear: one scale, unless the input is a constant",
    QUANTIZE_LAYER,
)
def activation_scale(graph: Graph, node: Node) -> str | None:
    axes = graph.axes(node.input(1))
    alone = axes is not None and all(axis == 1 for axis in axes)
    return None if alone or graph.is_constant(node.input(0)) else f"scale {shape_text(axes)} of {node.input(0)}"


@of_nodes(
    "scale-rank", QUANTIZERS, f"QuantizeLinear, DequantizeLinear: a scale of at most {_MOST_AXES} axes", QUANTIZE_LAYER
)
def scale_rank(graph: Graph, node: Node) -> str | None:
    axes = graph.axes(node.input(1))
    return None if axes is not None and len(axes) <= _MOST_AXES else f"scale {shape_text(axes)}"
