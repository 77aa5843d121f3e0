"""Which attentions of a graph TensorRT is expected to run as one kernel each, said before an engine is built.

    numbers of a head in     expected to fuse
    float16, bfloat16        sizes 16 to 256 that are multiples of 8
    float32 and others       never: its fused kernels multiply in half precision

Where one is not expected to fuse, it is computed out of several layers, if at all: such a build asks for
``--allow-decomposed``. Only the engine says what became of it (:mod:`export.tensorrt.attention_report`).

Source: TensorRT's developer guide, attention; what its users report (NVIDIA/TensorRT #4738, builds of 11.2.1 that
failed for a single wide head). Nothing here was tried on TensorRT.
"""

from dataclasses import dataclass

from export.targets.constraints.graph import Graph, Node

_FUSED_TYPES = frozenset({"float16", "bfloat16"})
_SMALLEST, _LARGEST, _MULTIPLE = 16, 256, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedAttention:
    """One Attention node.

    Attributes:
        node: its name.
        obstacle: why it is not expected to fuse; empty where it is.
    """

    node: str
    obstacle: str


def plan_fusion(graph: Graph) -> tuple[ExpectedAttention, ...]:
    """What is expected of every Attention node that TensorRT itself computes, in the graph's order."""
    nodes = (node for node in graph.nodes if node.operator == "Attention" and not node.proto.domain)
    return tuple(ExpectedAttention(node=str(node.proto.name), obstacle=_find_obstacle(graph, node)) for node in nodes)


def describe_fusion(graph: str, planned: tuple[ExpectedAttention, ...]) -> str:
    """The plan of a graph in one line; empty where it has no attention of TensorRT's own."""
    apart = [one for one in planned if one.obstacle]
    if not planned:
        return ""
    if not apart:
        return f"{graph}: all of {len(planned)} attentions are expected in fused kernels"
    reasons = ", ".join(sorted({one.obstacle for one in apart}))
    return f"{graph}: {len(apart)} of {len(planned)} attentions are expected to fall apart: {reasons}"


def _find_obstacle(graph: Graph, node: Node) -> str:
    dtype, axes = graph.dtype(node.input(0)), graph.axes(node.input(0))
    size = axes[-1] if axes else None
    if dtype not in _FUSED_TYPES:
        return f"numbers of {dtype or 'an unknown type'}"
    if not isinstance(size, int):
        return "heads of a size that is not fixed"
    fits = _SMALLEST <= size <= _LARGEST and size % _MULTIPLE == 0
    return "" if fits else f"heads of {size}"
