"""Operators that choose, cut out of a graph: a tie that falls otherwise is a choice, and no drift.

    before    scores ──► TopK ──► Gather ──► boxes
    after     scores (measured)      chosen (fed) ──► Gather ──► boxes

A detector whose scores drift by a millionth may name its boxes in another order, or one box more: every number after
that differs. So what a choice is made by is measured, and what was chosen is fed from the reference, in every form of
the graph alike. Random numbers are fed likewise.
"""

from collections.abc import Collection

import onnx_ir as ir

from export.mixed_precision.operator_types import is_wide

SELECTING = frozenset({"ArgMax", "ArgMin", "Multinomial", "NonMaxSuppression", "NonZero", "TopK", "Unique"})
RANDOM = frozenset({"Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"})


def selected_names(model: ir.Model) -> tuple[list[str], list[str]]:
    """What is measured of a float32 graph, and what is fed to every form of it.

    Returns:
        The names of its float32 outputs and of what is chosen by; and of what is chosen, where something reads it.
    """
    measured = {str(value.name): None for value in model.graph.outputs if is_wide(value) and not _is_chosen(value)}
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


def _is_chosen(value: ir.Value) -> bool:
    node = value.producer()
    return node is not None and node.op_type in SELECTING | RANDOM


def _any_size(shape: ir.Shape | None) -> ir.Shape | None:
    return None if shape is None else ir.Shape([None] * len(shape))
