"""Restrictions on QuantizeLinear and DequantizeLinear beyond those of whole_graph."""

from __future__ import annotations

from export.targets.restrictions.forms import of_nodes, shape_text
from export.targets.restrictions.graph import QUANTIZERS, Graph, Node
from export.targets.restrictions.sources import QUANTIZE_LAYER

_MOST_AXES = 2


def _activation_scale(graph: Graph, node: Node) -> str | None:
    axes = graph.axes(node.input(1))
    alone = axes is not None and all(axis == 1 for axis in axes)
    return None if alone or graph.is_constant(node.input(0)) else f"scale {shape_text(axes)} of {node.input(0)}"


def _scale_rank(graph: Graph, node: Node) -> str | None:
    axes = graph.axes(node.input(1))
    return None if axes is not None and len(axes) <= _MOST_AXES else f"scale {shape_text(axes)}"


QUANTIZATION = (
    of_nodes(
        "activation-scale",
        QUANTIZERS,
        "QuantizeLinear, DequantizeLinear: one scale, unless the input is a constant",
        QUANTIZE_LAYER,
        _activation_scale,
    ),
    of_nodes(
        "scale-rank",
        QUANTIZERS,
        f"QuantizeLinear, DequantizeLinear: a scale of at most {_MOST_AXES} axes",
        QUANTIZE_LAYER,
        _scale_rank,
    ),
)
