"""Queries and keys that are multiplied under a constant bias, as windows are: where they may be rounded to integers.

Only those that come straight out of a product with a weight: a cosine is scaled afterwards, and its error with it.
Their ranges travel with the Attention node, as metadata, from calibration to the targets that round them.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from export.passes.moves import before_moves
from export.passes.outcome import OURS

_LARGEST = f"{OURS}largest"
_FACTORS = ("queries", "keys")


def has_constant_bias(node: ir.Node) -> bool:
    """Whether a node is Attention with a bias that is part of the graph, and nothing remembered."""
    if node.op_type != "Attention" or node.domain or len(node.inputs) != 4 or len(node.outputs) != 1:
        return False
    bias = node.inputs[3]
    return bias is not None and bias.const_value is not None


def score_factors(graph: ir.Graph) -> list[tuple[ir.Node, str, ir.Value]]:
    """Attention nodes, ``queries`` or ``keys``, and what these are before they are moved."""
    nodes = [node for node in graph if has_constant_bias(node)]
    found = [(node, name, _source(node.inputs[index])) for node in nodes for index, name in enumerate(_FACTORS)]
    return [(node, name, source) for node, name, source in found if source is not None]


def note_largest(graph: ir.Graph, largest: Mapping[str, float]) -> None:
    """Write the largest magnitude of each factor that calibration saw to its Attention node."""
    for node, name, source in score_factors(graph):
        if (found := largest.get(str(source.name))) is not None:
            node.metadata_props[f"{_LARGEST}_{name}"] = repr(found)


def noted_largest(node: ir.Node) -> list[float | None]:
    """The largest magnitudes of a node's queries and keys; none where they were not calibrated."""
    noted = [node.metadata_props.get(f"{_LARGEST}_{name}") for name in _FACTORS]
    return [None if text is None else float(text) for text in noted]


def _source(factor: ir.Value | None) -> ir.Value | None:
    if factor is None:
        return None
    source, _ = before_moves(factor)
    return source if is_of_product(source) else None


def is_of_product(value: ir.Value) -> bool:
    """Whether a value is computed by a product with a weight, with what is added to it."""
    node = value.producer()
    if node is not None and node.op_type == "Add":
        terms = [term for term in node.inputs if term is not None and term.const_value is None]
        node = terms[0].producer() if len(terms) == 1 else None
    return node is not None and (node.op_type == "Gemm" or (node.op_type == "MatMul" and _is_weight(node.inputs[1])))


def _is_weight(value: ir.Value | None) -> bool:
    rounded = None if value is None else value.producer()
    if rounded is not None and rounded.op_type == "DequantizeLinear":
        value = rounded.inputs[0]
    return value is not None and value.const_value is not None
