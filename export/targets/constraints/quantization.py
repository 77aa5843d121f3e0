"""Constraints on QuantizeLinear and DequantizeLinear beyond those of whole_graph, and on what reads them."""

from collections.abc import Iterator

import numpy as np

from export.targets.constraints.constraint import Violation
from export.targets.constraints.forms import of_graph, of_nodes, shape_text
from export.targets.constraints.graph import QUANTIZERS, Graph, Node
from export.targets.constraints.sources import FLOAT8, PARSER, QUANTIZE_LAYER, SCHEMES
from export.targets.targets import RuntimeTarget

_MOST_AXES = 2
_FOUR_BITS = frozenset({"int4", "float4e2m1"})
_FLOAT8 = "float8e4m3fn"
_BLOCK_SIZES = (64, 128)
_LEAST_CHANNELS, _LARGEST_FILTER = 16, 32


@of_nodes(
    "activation-scale",
    QUANTIZERS,
    "QuantizeLinear, DequantizeLinear: one scale, unless the input is a constant",
    QUANTIZE_LAYER,
)
def activation_scale(graph: Graph, node: Node) -> str | None:
    axes = graph.axes(node.input(1))
    alone = axes is not None and all(axis == 1 for axis in axes)
    return None if alone or graph.is_constant(node.input(0)) else f"scale {shape_text(axes)} of {node.input(0)}"


@of_nodes(
    "scale-rank", QUANTIZERS, f"QuantizeLinear, DequantizeLinear: a scale of at most {_MOST_AXES} axes", QUANTIZE_LAYER
)
def scale_rank(graph: Graph, node: Node) -> str | None:
    axes = graph.axes(node.input(1))
    return None if axes is not None and len(axes) <= _MOST_AXES else f"scale {shape_text(axes)}"


@of_nodes("scale-sign", QUANTIZERS, "QuantizeLinear, DequantizeLinear: scales above 0", PARSER)
def scale_sign(graph: Graph, node: Node) -> str | None:
    value = graph.constant(node.input(1))
    if value is None:
        return None
    wrong = value[~(value.astype(np.float32) > 0)]
    return f"{node.input(1)} with {wrong.reshape(-1)[0]}" if wrong.size else None


@of_nodes(
    "scale-shape",
    QUANTIZERS,
    "QuantizeLinear, DequantizeLinear: one scale; one for each number along the axis; or, of a matrix in 4 bits, one "
    "for each block along one axis, whose length they divide, of int4 in blocks of 64 or 128",
    f"{PARSER}, QuantDequantLinearHelper: block_size is not read, but divided out; {SCHEMES}: the sizes of blocks",
)
def scale_shape(graph: Graph, node: Node) -> str | None:
    axes, scale = graph.axes(node.input(0)), graph.axes(node.input(1))
    if axes is None or scale is None or all(size == 1 for size in scale):
        return None
    text = f"scale {shape_text(scale)} of {shape_text(axes)}"
    if len(scale) == 1:
        axis = node.attribute("axis", 1)
        fits = -len(axes) <= axis < len(axes) and axes[axis] == scale[0]
        return None if fits else f"{text} along axis {axis}"
    blocked = [pair for pair in zip(axes, scale, strict=False) if pair[0] != pair[1]]
    if len(scale) != len(axes) or len(blocked) != 1 or len(axes) != _MOST_AXES:
        return text
    dtype = graph.dtype(node.input(0))
    if dtype not in _FOUR_BITS:
        return f"{text}, {dtype or 'of no type'} in blocks"
    length, count = blocked[0]
    size = node.attribute("block_size", 0)
    whole = isinstance(length, int) and isinstance(count, int) and length == count * size
    supported = dtype != "int4" or size in _BLOCK_SIZES
    return None if whole and supported else f"{text} in blocks of {size}"


@of_nodes("even-count", QUANTIZERS, "QuantizeLinear, DequantizeLinear: numbers of 4 bits are even in number", PARSER)
def even_count(graph: Graph, node: Node) -> str | None:
    axes = graph.axes(node.input(0))
    if axes is None or graph.dtype(node.input(0)) not in _FOUR_BITS or not all(isinstance(axis, int) for axis in axes):
        return None
    return f"{node.input(0)} {shape_text(axes)}" if np.prod([int(axis or 0) for axis in axes]) % 2 else None


@of_nodes(
    "scale-type",
    {"QuantizeLinear"},
    "QuantizeLinear: the scale has the type of what it divides",
    f"{PARSER}: casts it in opsets before 19 alone; NVIDIA/Model-Optimizer #118: no kernel, no build",
)
def scale_type(graph: Graph, node: Node) -> str | None:
    divided, scale = (graph.dtype(node.input(index)) for index in (0, 1))
    return None if divided == scale or not (divided and scale) else f"scale of type {scale} for {divided}"


@of_nodes(
    "dequantize-type",
    {"DequantizeLinear"},
    "DequantizeLinear: a zero point or output_dtype, not both",
    f"{PARSER}: holds the zero point to output_dtype, whichever way the numbers go",
)
def dequantize_type(graph: Graph, node: Node) -> str | None:
    both = node.input(2) and node.attribute("output_dtype", 0)
    return f"{node.input(2)} and output_dtype = {node.attribute('output_dtype')}" if both else None


@of_graph(
    "float8-convolution",
    f"Conv of weights in float8: at least {_LEAST_CHANNELS} channels on either side of every group, and filters of at "
    f"most {_LARGEST_FILTER} numbers",
    FLOAT8,
    {"Conv"},
)
def float8_convolution(graph: Graph, target: RuntimeTarget) -> Iterator[Violation]:
    makers = {node.output(0): node for node in graph.nodes}
    for node in graph.nodes:
        weight = makers.get(node.input(1)) if node.operator == "Conv" else None
        axes = graph.axes(weight.input(0)) if weight is not None else None
        if weight is None or axes is None or graph.dtype(weight.input(0)) != _FLOAT8:
            continue
        sizes = [axis if isinstance(axis, int) else 0 for axis in axes]
        if min(sizes[:2]) < _LEAST_CHANNELS or np.prod(sizes[2:]) > _LARGEST_FILTER:
            yield Violation(node=node.label, found=f"weights {shape_text(axes)}")
