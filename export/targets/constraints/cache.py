"""Constraints on TensorScatter: TensorRT's cache update writes into a buffer that comes in and goes out.

Legend: B batch, G key and value heads, M capacity, D head size. A cache is ``[B, G, M, D]``.
"""

from collections.abc import Iterator

from export.targets.constraints.constraint import Violation
from export.targets.constraints.forms import attribute_in, of_graph, of_nodes, ranks, shape_text
from export.targets.constraints.graph import Graph, Node
from export.targets.constraints.sources import CACHE, TABLE
from export.targets.targets import RuntimeTarget

_SCATTER = frozenset({"TensorScatter"})
_PAST, _INDICES = 0, 2
_CAPACITY_AXIS = 2


ranks("cache-rank", _SCATTER, {0: "past_cache", 1: "update"}, (4,), TABLE)
attribute_in("cache-axis", _SCATTER, "axis", (-2,), TABLE, default=-2)
attribute_in("cache-mode", _SCATTER, "mode", ("linear",), f"{CACHE}: KVCacheMode.LINEAR", default="linear")


@of_nodes("cache-input", _SCATTER, "TensorScatter: the cache is an input of the graph", CACHE)
def cache_input(graph: Graph, node: Node) -> str | None:
    past = node.input(_PAST)
    return None if past in graph.inputs else f"the cache {past}, which is computed"


@of_nodes("cache-output", _SCATTER, "TensorScatter: the updated cache is an output of the graph", CACHE)
def cache_output(graph: Graph, node: Node) -> str | None:
    return None if node.output(0) in graph.outputs else f"{node.output(0)}, which stays in the graph"


@of_nodes(
    "cache-pair",
    _SCATTER,
    "TensorScatter: input and output are the pair that shares a buffer",
    f"{CACHE}: they have one device address; the pairs are the manifest's",
)
def cache_pair(graph: Graph, node: Node) -> str | None:
    wanted = graph.signature.aliases.get(node.output(0))
    if node.output(0) not in graph.outputs or wanted == node.input(_PAST):
        return None
    return f"{node.output(0)} is made from {node.input(_PAST)}; the manifest keeps it in the buffer of {wanted}"


@of_nodes("cache-capacity", _SCATTER, "TensorScatter: the capacity of the cache is fixed", CACHE)
def cache_capacity(graph: Graph, node: Node) -> str | None:
    axes = graph.axes(node.input(_PAST))
    fixed = axes is not None and len(axes) == 4 and isinstance(axes[_CAPACITY_AXIS], int)
    return None if fixed else f"the cache {shape_text(axes)}"


@of_nodes("cache-indices", _SCATTER, "TensorScatter: write_indices are int32 or int64", CACHE)
def cache_indices(graph: Graph, node: Node) -> str | None:
    dtype = graph.dtype(node.input(_INDICES))
    return None if not node.input(_INDICES) or dtype in {"int32", "int64"} else f"write_indices of type {dtype}"


@of_graph("cache-type", "TensorScatter: the cache is of a floating-point type", CACHE, _SCATTER)
def cache_type(graph: Graph, target: RuntimeTarget) -> Iterator[Violation]:
    for node in graph.nodes:
        dtype = graph.dtype(node.input(_PAST))
        if node.operator in _SCATTER and dtype not in target.cache_dtypes:
            yield Violation(node=node.label, found=f"a cache of type {dtype or 'unknown'}")
