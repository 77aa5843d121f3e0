"""Caches in 8 bits: keys and values are rounded before they are cached, by scales known beforehand.

    before    TensorScatter(cache, K, start)
    after     TensorScatter(cache, DequantizeLinear(QuantizeLinear(K, s, 0), s, 0), start)

The cache of the standard graph stays float32, as TensorRT wants it, and holds no more than 255 different numbers.
:func:`export.passes.ort.lower_cached_attention.lower_cached_attention` reads from this form that a runtime may keep the
integers instead. One scale s a cache: only with that does ONNX Runtime multiply queries and cached keys in 8 bits.

Source: ONNX operator specification, QuantizeLinear and TensorScatter.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import TopologicalSortPass
from onnx_ir.tape import Tape

from export.graph.outcome import Outcome
from export.passes.match.head_layout import producer
from export.passes.match.products import stored
from export.passes.quantise.quantise_static import LARGEST


def quantise_caches(model: ir.Model, largest: Mapping[str, float]) -> Outcome:
    """Round whatever a TensorScatter writes into an input of the graph.

    Args:
        model: changed in place.
        largest: name of a cache among the graph's inputs → the largest magnitude that calibration found in it.
    """
    graph, fired, misses = model.graph, 0, []
    tape = Tape(graph)
    for node in [node for node in graph if node.op_type == "TensorScatter"]:
        cache, new = node.inputs[:2]
        assert cache is not None and new is not None
        if producer(new, "DequantizeLinear") is not None:
            continue
        if cache.name not in largest:
            misses.append(f"{node.outputs[0].name}: calibration saw no {cache.name!r}")
            continue
        node.replace_input_with(1, _rounded(tape, graph, new, str(cache.name), largest[str(cache.name)]))
        fired += 1
    TopologicalSortPass()(model)
    return Outcome(name="quantise_caches", fired=fired, misses=tuple(misses))


def _rounded(tape: Tape, graph: ir.Graph, new: ir.Value, cache: str, largest: float) -> ir.Value:
    scale = stored(graph, f"{cache}.scale", np.array((largest or 1.0) / LARGEST, np.float32))
    zero = stored(graph, "int8.zero_point", np.array(0, np.int8))
    integers = tape.op("QuantizeLinear", [new, scale, zero])
    restored = tape.op("DequantizeLinear", [integers, scale, zero])
    integers.shape, integers.type = new.shape, ir.TensorType(ir.DataType.INT8)
    restored.shape, restored.type = new.shape, new.type
    return restored
