"""Store the weight of a convolution once more, with a column of zeros, where another kind reads the same numbers.

    before    Conv(x, W), ConvTranspose(y, W)
    after     Conv(x, W), ConvTranspose(y, [W 0]), with as much more padding behind

OpenVINO 2026.4 convolves both ways by the weight that it packed for whichever comes first, in every type of numbers: it
knows packed weights by where their numbers lie and what their sizes are. Zeros at the end of a kernel's last axis add
nothing, whatever the strides and groups are.
"""

from collections import defaultdict

import numpy as np
import onnx_ir as ir

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.products import add_initializer
from export.passes.match.stored_numbers import StoredNumbers, read


class PartConvolutions(Rewrite):
    """Rewrite every convolution that reads a weight otherwise than the first that reads it."""

    operators = frozenset({"Conv", "ConvTranspose"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        stored = StoredNumbers(graph)
        readers: dict[int, dict[tuple[str, tuple[int, ...]], list[ir.Node]]] = defaultdict(lambda: defaultdict(list))
        for node in [node for node in graph if node.op_type in self.operators]:
            found = stored.kernel(read(node, 1))
            if found is not None and node.attributes.get_string("auto_pad", "NOTSET") == "NOTSET":
                origin, order = found
                readers[origin][node.op_type, order].append(node)
        for kinds in readers.values():
            for number, nodes in enumerate([*kinds.values()][1:], 1):
                for node in nodes:
                    weight = read(node, 1)
                    numbers = stored.numbers(weight)
                    zeros = np.zeros((*numbers.shape[:-1], number), numbers.dtype)
                    longer = np.concatenate([numbers, zeros], -1)
                    node.replace_input_with(1, add_initializer(graph, f"{weight.name}.longer", longer))
                    _pad_behind(node, numbers.ndim - 2, number)
                result.fired += len(nodes)


def _pad_behind(node: ir.Node, axes: int, columns: int) -> None:
    """Widen the padding behind the last axis by what a kernel longer by so many columns needs."""
    pads = list(node.attributes.get_ints("pads", [0] * 2 * axes))
    pads[-1] += columns * node.attributes.get_ints("dilations", [1] * axes)[-1]
    node.attributes["pads"] = ir.AttrInt64s("pads", pads)
    if "kernel_shape" in node.attributes:
        *first, last = node.attributes.get_ints("kernel_shape", [])
        node.attributes["kernel_shape"] = ir.AttrInt64s("kernel_shape", [*first, last + columns])
