"""Operators that choose, cut out of a graph: a tie that falls otherwise is a choice, and no drift.

    before    scores ──► TopK ──► Gather ──► boxes
    after     scores (measured)      chosen (fed) ──► Gather ──► boxes

A detector whose scores drift by a millionth may name its boxes in another order, or one box more: every number after
that differs. So what a choice is made by is measured, and what was chosen is fed from the reference, in every form of
the graph alike. Random numbers are fed likewise.

An output of another type than float32 has no drift of its own: what it is made of in float32 is measured.

    s ──► Greater ──► hit        s (measured)
"""

from collections.abc import Collection, Iterator

import onnx_ir as ir

from export.mixed_precision.operator_types import has_subgraph, is_wide

SELECTING = frozenset({"ArgMax", "ArgMin", "Multinomial", "NonMaxSuppression", "NonZero", "TopK", "Unique"})
RANDOM = frozenset({"Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"})
_SIZES = frozenset({"Shape", "Size"})
_RETURNED = frozenset(
    {ir.DataType.BOOL, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.INT32, ir.DataType.INT64, ir.DataType.UINT8}
)
"""Types of what a subgraph returns that are compared number by number, as its own values cannot be had."""


def selected_names(model: ir.Model) -> tuple[list[str], list[str]]:
    """What is measured of a float32 graph, and what is fed to every form of it.

    Returns:
        The names of its float32 outputs, of the float32 values that others are made of, and of what is chosen by; and
        of what is chosen, where something reads it.
    """
    measured = {str(value.name): None for value in _compared(model)}
    fed: dict[str, None] = {}
    for node in model.graph:
        if node.op_type not in SELECTING | RANDOM or node.domain not in ("", "ai.onnx"):
            continue
        if node.op_type in SELECTING:
            computed = (one for one in node.inputs if one is not None and is_wide(one) and one.producer() is not None)
            measured |= {str(value.name): None for value in computed}
        fed |= {str(value.name): None for value in node.outputs if value.uses()}
    return list(measured), list(fed)


def cut_selections(model: ir.Model, fed: Collection[str]) -> None:
    """Make inputs of what was chosen, in a graph with these names, changed in place."""
    for node in list(model.graph):
        for value in node.outputs:
            if value.name in fed:
                given = ir.Value(name=value.name, shape=_any_size(value.shape), type=value.type)
                value.name = f"{value.name}.computed"
                for user, at in tuple(value.uses()):
                    user.replace_input_with(at, given)
                model.graph.inputs.append(given)


def _compared(model: ir.Model) -> Iterator[ir.Value]:
    waiting, seen = list(model.graph.outputs)[::-1], set[ir.Value]()
    while waiting:
        value = waiting.pop()
        node = value.producer()
        if value in seen or _is_chosen(value):
            continue
        seen.add(value)
        if is_wide(value):
            if node is not None or value.is_graph_output():
                yield value
        elif node is not None and has_subgraph(node):
            if value.dtype in _RETURNED:
                yield value
        elif node is not None and node.op_type not in _SIZES:
            waiting += [one for one in node.inputs if one is not None]


def _is_chosen(value: ir.Value) -> bool:
    node = value.producer()
    return node is not None and node.op_type in SELECTING | RANDOM


def _any_size(shape: ir.Shape | None) -> ir.Shape | None:
    return None if shape is None else ir.Shape([None] * len(shape))
