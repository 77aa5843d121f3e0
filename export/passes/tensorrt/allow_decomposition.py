"""Let TensorRT compute an Attention that no fused kernel takes out of other layers; without this the build fails.

    before    Attention
    after     Attention <TRT_decomposable = 1>

The attribute is of TensorRT's parser and not of the standard, whose tools refuse it: this is the last pass, and what
the others made can be run without it (:func:`without_decomposition`). Whether attention fell apart is found out after
the build (:mod:`export.tensorrt.attention_report`).

Source: onnx-tensorrt, onnxOpImporters.cpp, Attention: IAttention.setDecomposable, by default false.
"""

import onnx_ir as ir

from export.graph.rewrite import Rewrite, RewriteResult

DECOMPOSABLE = "TRT_decomposable"


class AllowDecomposition(Rewrite):
    """Give the attribute to every Attention that has it not."""

    operators = frozenset({"Attention"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        for node in graph:
            if node.op_type == "Attention" and not node.domain and not node.attributes.get_int(DECOMPOSABLE, 0):
                node.attributes[DECOMPOSABLE] = ir.AttrInt64(DECOMPOSABLE, 1)
                result.fired += 1


def without_decomposition(model: ir.Model) -> ir.Model:
    """The same model, changed in place: of the standard again, for runtimes that compute the same numbers."""
    for node in model.graph:
        node.attributes.pop(DECOMPOSABLE, None)
    return model
