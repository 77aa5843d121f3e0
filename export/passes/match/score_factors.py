"""Queries and keys of attention that remembers nothing: where they may be rounded to integers.

Only those that come straight out of a product with a weight: a cosine is scaled afterwards, and its error with it.
Their ranges travel with the Attention node, as metadata, from calibration to the targets that round them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from export.graph.exported_graph import OURS
from export.passes.match.moves import before_moves

_LARGEST = f"{OURS}largest"
_FACTORS = ("queries", "keys")


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """Queries or keys.

    Attributes:
        node: Attention.
        name: ``queries`` or ``keys``.
        source: what they are before they are moved.
        read: the node that moves it first, or Attention itself, and which of its inputs it is.
    """

    node: ir.Node
    name: str
    source: ir.Value
    read: tuple[ir.Node, int]


def sees_all(node: ir.Node) -> bool:
    """Whether a node is Attention under no mask that a run decides, and remembers nothing."""
    bias = bias_of(node)
    return _remembers_nothing(node) and (bias is None or bias.const_value is not None)


def is_masked(node: ir.Node) -> bool:
    """Whether a node is Attention under a boolean mask that a run decides, and remembers nothing."""
    mask = bias_of(node)
    return _remembers_nothing(node) and mask is not None and mask.const_value is None and mask.dtype == ir.DataType.BOOL


def bias_of(node: ir.Node) -> ir.Value | None:
    """What an Attention node adds to its scores."""
    return node.inputs[3] if len(node.inputs) > 3 else None


def score_factors(graph: ir.Graph) -> list[Factor]:
    """The queries and the keys of nodes that :func:`sees_all` or :func:`is_masked`, where a product returns them."""
    nodes = [node for node in graph if sees_all(node) or is_masked(node)]
    found = (_factor(node, name, index) for node in nodes for index, name in enumerate(_FACTORS))
    return [factor for factor in found if factor is not None]


def note_largest(graph: ir.Graph, largest: Mapping[str, float]) -> None:
    """Write the largest magnitude of each factor that calibration saw to its Attention node."""
    for factor in score_factors(graph):
        if (found := largest.get(str(factor.source.name))) is not None:
            factor.node.metadata_props[f"{_LARGEST}_{factor.name}"] = repr(found)


def noted_largest(factor: Factor) -> float | None:
    """The largest magnitude that was noted; none where nothing was calibrated."""
    noted = factor.node.metadata_props.get(f"{_LARGEST}_{factor.name}")
    return None if noted is None else float(noted)


def _remembers_nothing(node: ir.Node) -> bool:
    is_attention = node.op_type == "Attention" and not node.domain
    return is_attention and len(node.inputs) in {3, 4} and len(node.outputs) == 1


def _factor(node: ir.Node, name: str, index: int) -> Factor | None:
    value = node.inputs[index]
    if value is None:
        return None
    source, moves = before_moves(value)
    if not _is_of_product(source):
        return None
    return Factor(node=node, name=name, source=source, read=(moves[0], 0) if moves else (node, index))


def _is_of_product(value: ir.Value) -> bool:
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
