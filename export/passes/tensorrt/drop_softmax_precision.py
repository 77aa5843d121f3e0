"""Leave the type of Attention's softmax to TensorRT, whose parser refuses a graph that states one.

    before    Attention <softmax_precision = FLOAT>
    after     Attention

Fused kernels of TensorRT add up scores in float32 whatever their type, which is what the attribute wished for.

Source: onnx-tensorrt, onnxOpCheckers.cpp, Attention: "Setting softmax precision is not supported".
"""

import onnx_ir as ir

from export.graph.rewrite import Rewrite, RewriteResult

_ATTRIBUTE = "softmax_precision"


class DropSoftmaxPrecision(Rewrite):
    """Take the attribute from every Attention that has it."""

    operators = frozenset({"Attention"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        for node in graph:
            if node.op_type == "Attention" and not node.domain and node.attributes.pop(_ATTRIBUTE, None) is not None:
                result.fired += 1
