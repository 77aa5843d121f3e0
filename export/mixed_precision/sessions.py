"""Sessions of ONNX Runtime over graphs in memory, any of whose values are outputs, and what they return."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime as ort

from serving.runtime.base import Array

_BASIC = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
_NONE = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
_ARRAYS = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}
_IN_FILE = 1024


class Session:
    """A graph that is loaded; floating inputs are fed in whatever floating type."""

    def __init__(self, session: ort.InferenceSession) -> None:
        self._session = session
        self._inputs = {one.name: one.type for one in session.get_inputs()}

    @property
    def inputs(self) -> Mapping[str, str]:
        """Input → ONNX Runtime's word for its type."""
        return self._inputs

    def get_outputs(self) -> list[Any]:
        """What it returns, as ONNX Runtime describes it."""
        return list(self._session.get_outputs())

    def run(self, names: Sequence[str], feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run the graph once, for the values of these names; feeds that it has no input for are left out."""
        taken = {name: _as(feeds[name], kind) for name, kind in self._inputs.items()}
        return dict(zip(names, self._session.run(list(names), taken), strict=True))


def session_of(model: ir.Model, names: Sequence[str] = (), optimise: bool = True) -> Session:
    """Load a graph.

    Args:
        model: the graph; unchanged.
        names: values of its main graph that it shall return besides its outputs.
        optimise: whether constants are folded beforehand; without it, nodes are executed as they stand.

    Raises:
        Exception: whatever ONNX Runtime raises.
    """
    outputs = list(model.graph.outputs)
    present = {value.name for value in outputs}
    values = {value.name: value for node in model.graph for value in node.outputs}
    added = [values[name] for name in dict.fromkeys(names) if name not in present and name in values]
    options = ort.SessionOptions()
    options.graph_optimization_level = _BASIC if optimise else _NONE
    options.log_severity_level = 4
    options.intra_op_num_threads = 0
    with TemporaryDirectory() as place:
        path = Path(place) / "model.onnx"
        model.graph.outputs.extend(added)
        try:
            ir.save(model, path, external_data="model.data", size_threshold_bytes=_IN_FILE)
        finally:
            model.graph.outputs[len(outputs) :] = ()  # `del` would leave them marked as outputs
        return Session(ort.InferenceSession(path, options, providers=["CPUExecutionProvider"]))


def _as(array: Array, kind: str) -> Array:
    wanted = _ARRAYS.get(kind)
    return array if wanted is None or array.dtype == wanted else array.astype(wanted)
