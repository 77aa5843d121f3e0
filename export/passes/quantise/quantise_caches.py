"""Caches in 8 bits: keys and values are rounded before they are cached, by scales known beforehand.

    before    TensorScatter(cache, K, start)
    after     TensorScatter(cache, DequantizeLinear(QuantizeLinear(K, s, 0), s, 0), start)

The cache of the standard graph stays float32, as TensorRT wants it, and holds no more than 255 different numbers.
:class:`export.passes.ort.lower_cached_attention.LowerCachedAttention` reads from this form that a runtime may keep the
integers instead. One scale s a cache: only with that does ONNX Runtime multiply queries and cached keys in 8 bits.

Source: ONNX operator specification, QuantizeLinear and TensorScatter.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.head_layout import producer
from export.passes.match.products import add_initializer
from export.passes.quantise.quantise_static import LARGEST


@dataclass(frozen=True)
class QuantiseCaches(Rewrite):
    """Round whatever a TensorScatter writes into an input of the graph.

    Attributes:
        largest: name of a cache among the graph's inputs → the largest magnitude that calibration found in it.
        calibration: what was found, for the manifest.
    """

    operators = frozenset({"TensorScatter"})
    largest: Mapping[str, float]
    calibration: dict[str, Any] | None = None

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        tape, largest, result.calibration = Tape(graph), self.largest, self.calibration
        for node in [node for node in graph if node.op_type == "TensorScatter"]:
            cache, new = node.inputs[:2]
            assert cache is not None and new is not None
            if producer(new, "DequantizeLinear") is not None:
                continue
            if cache.name is None or cache.name not in largest:
                result.missed.append(f"{node.outputs[0].name}: calibration saw no {cache.name!r}")
                continue
            step = np.array((largest[cache.name] or 1.0) / LARGEST, np.float32)
            scale = add_initializer(graph, f"{cache.name}.scale", step)
            zero = add_initializer(graph, "int8.zero_point", np.array(0, np.int8))
            integers = tape.op("QuantizeLinear", [new, scale, zero])
            restored = tape.op("DequantizeLinear", [integers, scale, zero])
            integers.shape, integers.type = new.shape, ir.TensorType(ir.DataType.INT8)
            restored.shape, restored.type = new.shape, new.type
            node.replace_input_with(1, restored)
            result.fired += 1
