"""Constraints on If and Loop."""

from typing import Any

from export.targets.constraints.forms import of_nodes
from export.targets.constraints.graph import Graph, Node
from export.targets.constraints.sources import TABLE

_TRIP_COUNT, _CONDITION, _FIRST_CARRIED = 0, 1, 2


@of_nodes("if-branches", {"If"}, "If: outputs of both branches differ in name and agree in rank", TABLE)
def if_branches(graph: Graph, node: Node) -> str | None:
    names = [[value.name for value in node.attribute(branch).output] for branch in ("then_branch", "else_branch")]
    shared = sorted(set(names[0]) & set(names[1]))
    if shared:
        return f"both branches name an output {shared[0]}"
    for then, otherwise in zip(*names, strict=False):
        shapes = graph.axes(then), graph.axes(otherwise)
        if _rank(shapes[0]) != _rank(shapes[1]):
            return f"{then} has {_rank(shapes[0])} axes, {otherwise} {_rank(shapes[1])}"
    return None


def _rank(axes: tuple[Any, ...] | None) -> int | None:
    return None if axes is None else len(axes)


@of_nodes("loop-scan-length", {"Loop"}, "Loop: the length of scan outputs is fixed", TABLE)
def loop_scan_length(graph: Graph, node: Node) -> str | None:
    carried = len(node.proto.input) - _FIRST_CARRIED
    scans = [output for output in node.proto.output[carried:] if output]
    fixed = graph.is_constant(node.input(_TRIP_COUNT)) and _runs_to_its_end(graph, node)
    return None if not scans or fixed else f"scan output {scans[0]}, whose length is computed"


def _runs_to_its_end(graph: Graph, node: Node) -> bool:
    first, body = node.input(_CONDITION), node.attribute("body")
    given, returned = body.input[1].name, body.output[0].name
    made = {output: part for part in body.node for output in part.output}
    kept = returned == given or (
        returned in made and made[returned].op_type == "Identity" and made[returned].input[0] == given
    )
    return (not first or graph.is_constant(first)) and (kept or graph.is_constant(returned))
