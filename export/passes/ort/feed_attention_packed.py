"""Hand queries, keys and values to ONNX Runtime's GroupQueryAttention as the one tensor that they were split from.

    before    Split(P) → Q, K, V → GroupQueryAttention(Q, K, V, …)
    after     GroupQueryAttention(P, , , …)

Precondition: :class:`export.passes.ort.pack_products.PackProducts` ran before the lowering.

Source: ONNX Runtime 1.31, docs/ContribOperators.md, com.microsoft.GroupQueryAttention.
"""

import onnx_ir as ir

from export.graph.rewrite import Rewrite, RewriteResult


class FeedAttentionPacked(Rewrite):
    """Rewrite every GroupQueryAttention whose first three inputs are, in order, all outputs of one Split."""

    operators = frozenset({"GroupQueryAttention"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        for node in [node for node in graph if node.op_type == "GroupQueryAttention"]:
            split = None if node.inputs[0] is None else node.inputs[0].producer()
            if split is None or split.op_type != "Split" or list(split.outputs) != list(node.inputs[:3]):
                continue
            for index, value in enumerate((split.inputs[0], None, None)):
                node.replace_input_with(index, value)
            result.fired += 1
