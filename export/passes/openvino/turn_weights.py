"""Store a square matrix of bfloat16 a second time, turned, where products read it both ways.

    before    MatMul(x, W),  MatMul(y, Transpose(W))
    after     MatMul(x, W),  MatMul(y, W')              W' the same numbers, turned

OpenVINO 2026.4 multiplies both by the matrix that it packed for whichever comes first: it knows packed weights by where
their numbers lie and what their sizes are, and with these two both are the same.
"""

import numpy as np
import onnx_ir as ir

from export.graph.rewrite import Rewrite, RewriteResult
from export.graph.weights import TRANSPOSED
from export.passes.match.products import add_initializer


class TurnWeights(Rewrite):
    """Rewrite every product with the transpose of a square bfloat16 matrix that another product reads as it is."""

    operators = frozenset({"Transpose"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        for node in [node for node in graph if node.op_type == "Transpose"]:
            weight, products = node.inputs[0], _read_by_products(node.outputs[0])
            if weight is None or not products or not _is_square(weight) or not _read_by_products(weight):
                continue
            assert weight.const_value is not None
            numbers = np.ascontiguousarray(weight.const_value.numpy().transpose(node.attributes.get_ints("perm", None)))
            turned = add_initializer(graph, f"{weight.name}{TRANSPOSED}", numbers)
            for product in products:
                product.replace_input_with(1, turned)
            result.fired += 1


def _read_by_products(value: ir.Value) -> list[ir.Node]:
    return [node for node, index in value.uses() if node.op_type == "MatMul" and index == 1]


def _is_square(value: ir.Value) -> bool:
    if not value.is_initializer() or value.dtype != ir.DataType.BFLOAT16 or value.shape is None:
        return False
    return len(value.shape) > 1 and value.shape[-1] == value.shape[-2]
