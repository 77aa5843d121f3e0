"""A float32 graph with int8 QuantizeLinear and DequantizeLinear before its products, but for what needs more."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from attendant.errors import ExportError, InputError
from export.graph.rewrite import RewriteResult
from export.mixed_precision.feeds import Feeds
from export.mixed_precision.forms import Reference
from export.mixed_precision.operator_types import is_wide
from export.mixed_precision.outcome import KeptNode, Typed
from export.mixed_precision.ranges import largest_values
from export.mixed_precision.search import Kind, search
from export.mixed_precision.simulation import integer_gates, load_simulation
from export.mixed_precision.source import label_of
from export.passes.quantise.quantise_static import Rounded, round_products, rounded_products

_ROUNDED = frozenset({"Conv", "Gemm", "MatMul"})
_WEIGHTED = _ROUNDED | {"ConvTranspose", "GRU", "LSTM", "RNN"}


def to_integers(model: ir.Model, feeds: Feeds, reference: Reference, budget: float) -> Typed:
    """Change a graph: MatMul, Gemm and Conv with a constant; those in subgraphs stay.

    Args:
        model: changed in place.
        feeds: what it is calibrated and measured with.
        reference: what it computes in float32.
        budget: the largest drift.

    Raises:
        ExportError: it has no such product.
        InputError: an activation is not finite on a sample.
    """
    products = rounded_products(model.graph)
    if not products:
        remedy = "choose fp16 or bf16"
        raise ExportError("a MatMul, Gemm or Conv with a constant of its own", "none in the main graph", remedy)
    largest = _largest(model, products, feeds)
    copy = model.clone()
    count = integer_gates(copy, rounded_products(copy.graph), largest)
    simulation = load_simulation(copy, count, feeds.samples, reference)
    found = search(simulation, lambda: [Kind(product.node.op_type) for product in products], (), budget)
    rounded = [product for gate, product in enumerate(products) if gate not in found.kept]
    nodes = [product.node for product in products]
    kept = [_keep(nodes[gate], found.reason(gate), True) for gate in sorted(found.kept)]
    kept += [_keep(node, reason, False) for node, reason in _others(model, set(nodes))]
    if not rounded:
        raise ExportError("products that int8 can hold within the budget", "none", "give a larger --budget, or fp16")
    operators = Counter(product.node.op_type for product in rounded)
    round_products(model.graph, rounded, largest, RewriteResult(model, True, name="int8"))
    RemoveUnusedNodesPass()(model)
    model.graph.sort()
    return Typed(operators=dict(operators.most_common()), kept=tuple(kept), found=found)


def _keep(node: ir.Node, reason: str, measured: bool) -> KeptNode:
    return KeptNode(name=label_of(node), operator=node.op_type, reason=reason, measured=measured)


def _others(model: ir.Model, products: set[ir.Node]) -> Iterator[tuple[ir.Node, str]]:
    """Operators with weights that have no form in int8, and why."""
    for node in model.graph.all_nodes():
        weighted = any(is_wide(value) and value is not None and value.is_initializer() for value in node.inputs[1:2])
        if node.op_type in _WEIGHTED and weighted and node not in products:
            if node.op_type not in _ROUNDED:
                yield node, "only MatMul, Gemm and Conv have a form in int8"
            elif node.graph is not model.graph:
                yield node, "within a subgraph"
            else:
                yield node, "its weight is no matrix, or is read in another way as well"


def _largest(model: ir.Model, products: Sequence[Rounded], feeds: Feeds) -> dict[str, float]:
    names = list(dict.fromkeys(str(product.activation.name) for product in products))
    given = {value.name for value in model.graph.inputs}
    computed = [name for name in names if name not in given]
    largest = largest_values(model, computed, feeds.samples, "the graph")
    for name in given & set(names):
        largest[str(name)] = max(float(np.abs(sample[str(name)]).max(initial=0.0)) for sample in feeds.samples)
    if broken := [name for name, value in largest.items() if not np.isfinite(value)]:
        raise InputError("samples on which every activation is finite", f"NaN or infinity in {broken}", "check them")
    return largest
