"""A graph computed by onnx's own reference evaluator, behind the Runner protocol.

It is written in NumPy from the operators' specification, and shares no code with ONNX Runtime or PyTorch. It ignores
``sequence_lens`` of RNN, LSTM and GRU (onnx 1.23.2): of recurrent graphs it is an oracle only without padding.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from serving.runtime.base import ArrayBuffer, numpy_dtype


class ReferenceRunner:
    """One graph of an artefact; see :class:`serving.runtime.base.Runner`."""

    def __init__(self, path, signature):
        self.signature = signature
        self.evaluator = ReferenceEvaluator(onnx.load(path))

    def allocate(self, name, sizes):
        spec = self.signature.input(name)
        return ArrayBuffer(np.zeros(spec.shape(sizes), numpy_dtype(spec.dtype)))

    def run(self, feeds):
        arrays = {name: feed if isinstance(feed, np.ndarray) else feed.numpy() for name, feed in feeds.items()}
        values = self.evaluator.run(None, arrays)
        outputs = {spec.name: ArrayBuffer(value) for spec, value in zip(self.signature.outputs, values, strict=True)}
        for output, source in self.signature.aliases.items():
            feeds[source].write(outputs[output].numpy())
            outputs[output] = feeds[source]
        return outputs
