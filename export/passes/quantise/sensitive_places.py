"""Which parts of a graph may lose most when its numbers become narrow, and which of them are worth float32.

One operator alone hardly is: kernels of narrow types add in float32 and round their result, and between two Casts it is
rounded at the same places. What saves drift is a chain whose numbers are not rounded in between. Each candidate here
was measured by ``benchmarks.sensitivity``, which wrote ``sensitivity.json``; those are kept that take away at least
a tenth of the drift, as the geometric mean over the models that have them, and hold no matrix product: its weights, the
largest of a language model where it gives the logits, would take twice the memory.

    saved = 1 − (Π drift with every candidate kept / drift without this one)^(1/models)
"""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from math import prod
from pathlib import Path

import onnx_ir as ir

RECORD = Path(__file__).with_name("sensitivity.json")
WORTH = 0.1
"""The share of the drift that a place must take away to be kept."""
_NORMALISATIONS = frozenset({"LayerNormalization", "RMSNormalization"})
_FLOAT = ir.DataType.FLOAT
Place = Callable[[ir.Graph], Iterator[ir.Node]]


def residual_stream(graph: ir.Graph) -> Iterator[ir.Node]:
    """Sums of two computed values, which carry what a model knows from block to block, and norms, which read them."""
    for node in graph:
        if node.op_type in _NORMALISATIONS or (node.op_type == "Add" and all(map(_is_computed, node.inputs))):
            yield node


def biases(graph: ir.Graph) -> Iterator[ir.Node]:
    """Sums of a computed value and a weight."""
    return (node for node in graph if node.op_type == "Add" and not all(map(_is_computed, node.inputs)))


def angles(graph: ir.Graph) -> Iterator[ir.Node]:
    """Sines and cosines, and what their arguments are computed from: a position times a frequency."""
    return _behind(graph, {"Cos", "Sin"}, until=frozenset())


def alignment(graph: ir.Graph) -> Iterator[ir.Node]:
    """Softmax outside of Attention, and its scores up to the nearest matrix products: additive attention."""
    return _behind(graph, {"Softmax"}, until=frozenset({"MatMul", "Gemm"}))


def cosines(graph: ir.Graph) -> Iterator[ir.Node]:
    """Lengths of vectors, and the divisions by them."""
    for node in graph:
        if node.op_type == "ReduceL2":
            yield node
            yield from (user for bound in _users(node) for user in (bound, *_users(bound)) if user.op_type != "MatMul")


def logits(graph: ir.Graph) -> Iterator[ir.Node]:
    """What computes the outputs that are no memory: the last sum, and the product before it."""
    for value in graph.outputs:
        node = value.producer()
        if node is not None and value.dtype == _FLOAT and node.op_type in {"Add", "MatMul", "Gemm"}:
            yield node
            yield from (one for one in _producers(node) if one.op_type == "MatMul")


PLACES: dict[str, Place] = {
    "residual stream": residual_stream,
    "biases": biases,
    "angles": angles,
    "alignment": alignment,
    "cosines": cosines,
    "logits": logits,
}
"""What a candidate is called → its operators."""
COSTLY = frozenset({"logits"})
"""Candidates that hold matrix products."""


def sensitive_places(dtype: ir.DataType) -> Callable[[ir.Graph], Mapping[ir.Node, str]]:
    """For a narrow type: from a graph to the operators that are kept, each with its place and what that saves."""
    saved = {place: share for place, share in savings(dtype).items() if share >= WORTH and place not in COSTLY}

    def kept(graph: ir.Graph) -> dict[ir.Node, str]:
        return {
            node: f"{place}, {share:.0%} less drift" for place, share in saved.items() for node in PLACES[place](graph)
        }

    return kept


@cache
def savings(dtype: ir.DataType) -> dict[str, float]:
    """Place → the share of the drift that it takes away to keep it in float32, as recorded."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))[dtype.name.lower()]
    return {place: 1 - prod(ratios.values()) ** (1 / len(ratios)) for place, ratios in record["ratios"].items()}


def _behind(graph: ir.Graph, operators: set[str], until: frozenset[str]) -> Iterator[ir.Node]:
    waiting = [node for node in graph if node.op_type in operators]
    found: set[ir.Node] = set()
    while waiting:
        node = waiting.pop()
        if node not in found and node.op_type not in until:
            found.add(node)
            waiting.extend(_producers(node))
    yield from found


def _producers(node: ir.Node) -> list[ir.Node]:
    return [one for value in node.inputs if _is_computed(value) and (one := _producer(value)) is not None]


def _users(node: ir.Node) -> tuple[ir.Node, ...]:
    return tuple(node.outputs[0].consumers())


def _producer(value: ir.Value | None) -> ir.Node | None:
    return None if value is None else value.producer()


def _is_computed(value: ir.Value | None) -> bool:
    producer = _producer(value)
    return producer is not None and producer.op_type != "Constant" and value is not None and value.dtype == _FLOAT
