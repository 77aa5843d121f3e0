"""Normalise the channels of a map as those of a row of places: OpenVINO has one operator for three axes, not for four.

    before    LayerNormalization(x [B, h, w, C])
    after     Reshape(LayerNormalization(Reshape(x, [B, h w, C])), [B, h, w, C])

Legend: B batch, h and w sides of a map, C channels.
Source: OpenVINO 2026.4, CPU plugin: MVN over the last of three axes is one kernel, of four it is taken apart.
"""

import math

import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.moves import reshape
from export.passes.match.products import replace_value


class NormaliseRows(Rewrite):
    """Rewrite every LayerNormalization of the last of four axes, of which only the first may vary."""

    operators = frozenset({"LayerNormalization"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        tape = Tape(graph)
        for node in list(graph):
            sizes = _sizes(node)
            if sizes is None:
                continue
            x = node.inputs[0]
            assert x is not None
            flat = reshape(tape, graph, x, [math.prod(sizes[:2]), sizes[2]])
            normalised = tape.op("LayerNormalization", [flat, *node.inputs[1:]], dict(node.attributes))
            normalised.shape, normalised.type = flat.shape, flat.type
            replace_value(node.outputs[0], reshape(tape, graph, normalised, sizes))
            graph.remove(node, safe=True)
            result.fired += 1


def _sizes(node: ir.Node) -> list[int] | None:
    shape = node.inputs[0].shape if node.op_type == "LayerNormalization" and node.inputs[0] is not None else None
    if shape is None or len(shape) != 4 or node.attributes.get_int("axis", -1) not in {-1, 3}:
        return None
    sizes = [size for size in shape[1:] if isinstance(size, int)]
    return sizes if len(sizes) == 3 and len(node.outputs) == 1 else None
