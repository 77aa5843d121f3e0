"""Round queries and keys where a product returns them, so that OpenVINO multiplies them as integers.

    before    product → moves → Attention
    after     product → QuantizeLinear → DequantizeLinear → moves → Attention

OpenVINO moves the integers, if both stand before the moves; TensorRT fuses attention with all of its factors rounded or
none, so the standard's graph has them as floats.

Source: NNCF 3.4, post-training quantisation of transformers, rounds the same two.
"""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import TopologicalSortPass
from onnx_ir.tape import Tape

from export.graph.outcome import Outcome
from export.passes.match.score_factors import noted_largest, score_factors
from export.passes.quantise.quantise_static import rounded_activation


def round_score_factors(model: ir.Model) -> Outcome:
    """Round queries and keys whose largest magnitude calibration noted (:mod:`export.passes.match.score_factors`)."""
    fired, tape = 0, Tape(model.graph)
    for factor in score_factors(model.graph):
        largest = noted_largest(factor)
        if largest is None:
            continue
        reader, index = factor.read
        reader.replace_input_with(index, rounded_activation(tape, model.graph, factor.source, largest))
        fired += 1
    TopologicalSortPass()(model)
    return Outcome(name="round_score_factors", fired=fired)
