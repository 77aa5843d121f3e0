"""OpenVINO behind the Runner protocol, for graphs that update no cache: encoders and models of images.

It reads every such graph of ours; of a decoder it cannot read TensorScatter, as of 2026.4 ("no conversion rule").
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import numpy as np

from attendant.errors import ArtefactError, MachineError
from attendant.signature import GraphSignature, TensorSpec
from serving.runtime.base import Admission, Array, ArrayBuffer, Buffer, numpy_dtype
from serving.runtime.processor import sums_of_bytes_overflow

Precision = Literal["f32", "bf16"]
# Of a batch with rows of different lengths, 2026.4 computes another state for the shorter ones (docs/log.md).
_RECURRENT = {"GRUSequence", "LSTMSequence", "RNNSequence"}


class OpenVinoRunner:
    """One ONNX graph on OpenVINO's CPU plugin."""

    def __init__(self, path: Path, signature: GraphSignature, threads: int = 1, precision: Precision = "f32") -> None:
        """Load a graph and hold it to its signature.

        Args:
            path: the ``.onnx`` file.
            signature: what its manifest says of it.
            threads: for one run.
            precision: of what is computed; ``bf16`` keeps 8 bits of each number, and is fast where the CPU has it.

        Raises:
            MachineError: OpenVINO is not installed.
            ArtefactError: it cannot load the file, the graph updates a cache, has recurrent layers or returns bfloat16,
                which NumPy lacks, or its tensors are not the signature's.
        """
        if signature.aliases:
            raise ArtefactError(
                f"a graph without a cache at {path}",
                f"{len(signature.aliases)} tensors that it updates in place",
                "run it on ONNX Runtime",
            )
        found = [spec.name for spec in (*signature.inputs, *signature.outputs) if spec.dtype == "bfloat16"]
        if found:
            remedy = "serve an export with --precision fp16"
            raise ArtefactError(
                f"inputs and outputs of types that NumPy has, in {path}", f"bfloat16 in {found}", remedy
            )
        self._signature = signature
        self._admission = Admission(signature)
        self._compiled = _compile(path, threads, precision)
        _check(self._compiled, signature, path)
        self._request, self._turn = self._compiled.create_infer_request(), Lock()

    @property
    def signature(self) -> GraphSignature:
        return self._signature

    def allocate(self, name: str, sizes: Mapping[str, int]) -> ArrayBuffer:
        """A zeroed buffer for the input of that name."""
        spec = self._signature.input(name)
        return ArrayBuffer(np.zeros(spec.shape(sizes), numpy_dtype(spec.dtype)))

    def run(self, feeds: Mapping[str, Array | Buffer]) -> dict[str, Buffer]:
        self._admission.require_names(feeds)
        inputs = [_admit(spec, feeds[spec.name], self._admission) for spec in self._signature.inputs]
        with self._turn:  # a request has one set of tensors
            results = self._request.infer(inputs, share_inputs=True, share_outputs=False)
            return {spec.name: ArrayBuffer(results[at]) for at, spec in enumerate(self._signature.outputs)}


def openvino_is_installed() -> bool:
    try:
        _openvino()
    except MachineError:
        return False
    return True


def _openvino() -> Any:
    try:
        import openvino
    except ImportError as error:
        raise MachineError("the package openvino", str(error), "run `pip install openvino==2026.4.1`") from error
    return openvino


@cache
def _core(openvino: Any) -> Any:
    """The one of this process, which stays.

    Each gives the thread that first compiles a stack for signals, and takes it back when it goes: of two that go in the
    order in which they came, the second puts back the first one's, which is no more, and the next signal ends the
    process (2026.4).
    """
    return openvino.Core()


def _compile(path: Path, threads: int, precision: Precision) -> Any:
    core = _core(_openvino())
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": precision, "NUM_STREAMS": 1}
    if sums_of_bytes_overflow():
        # Products are of the same numbers in floating point then; not a documented setting (2026.4, config.cpp).
        settings["LP_TRANSFORMS_MODE"] = False
    try:
        model = core.read_model(path)
        found = sorted({one.get_type_name() for one in model.get_ops()} & _RECURRENT)
        if found:
            raise ArtefactError(
                f"a graph without recurrent layers at {path}: OpenVINO's answers to padded rows are wrong",
                str(found),
                "run it on ONNX Runtime",
            )
        return core.compile_model(model, "CPU", settings)
    except RuntimeError as error:
        remedy = "export the model again, or run it on ONNX Runtime"
        raise ArtefactError(f"an ONNX graph that OpenVINO reads at {path}", str(error), remedy) from error


def _check(compiled: Any, signature: GraphSignature, path: Path) -> None:
    pairs = (compiled.inputs, signature.inputs), (compiled.outputs, signature.outputs)
    for ports, specs in pairs:
        found = [
            f"{sorted(port.get_names())} {port.get_element_type().to_dtype()} {port.get_partial_shape()}"
            for port in ports
        ]
        if len(found) != len(specs) or not all(map(_agree, specs, ports)):
            expected = [f"{spec.name} {spec.dtype} {spec.describe_axes()}" for spec in specs]
            raise ArtefactError(f"{expected} in {path}, as its manifest says", str(found), "export the model again")


def _agree(spec: TensorSpec, port: Any) -> bool:
    sizes = [dimension.get_length() if dimension.is_static else None for dimension in port.get_partial_shape()]
    return (
        spec.name in port.get_names()
        and port.get_element_type().to_dtype() == numpy_dtype(spec.dtype)
        and len(sizes) == len(spec.axes)
        and all(size in (None, axis) for size, axis in zip(sizes, spec.axes, strict=True))
    )


def _admit(spec: TensorSpec, feed: Array | Buffer, admission: Admission) -> Array:
    array = np.ascontiguousarray(feed if isinstance(feed, np.ndarray) else feed.numpy())
    admission.require(spec, array.dtype.name, array.shape)
    return array
