"""Round queries and keys where a product returns them, so that OpenVINO multiplies them as integers.

    before    product → moves → Attention
    after     product → QuantizeLinear → DequantizeLinear → moves → Attention

OpenVINO moves the integers, if both stand before the moves; TensorRT fuses attention with all of its factors rounded or
none, so the standard's graph has them as floats.

Source: NNCF 3.4, post-training quantisation of transformers, rounds the same two.
"""

import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.score_factors import noted_largest, score_factors
from export.passes.quantise.quantise_static import rounded_activation


class RoundScoreFactors(Rewrite):
    """Round queries and keys whose largest magnitude calibration noted (:mod:`export.passes.match.score_factors`)."""

    operators = frozenset({"Attention"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        tape = Tape(graph)
        for factor in score_factors(graph):
            largest = noted_largest(factor)
            if largest is None:
                continue
            reader, index = factor.read
            reader.replace_input_with(index, rounded_activation(tape, graph, factor.source, largest))
            result.fired += 1
