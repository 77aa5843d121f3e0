"""ONNX Runtime behind the Runner protocol: IOBinding throughout, caches bound as input and as output, never copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from models.errors import ArtefactError
from models.signature import GraphSignature, TensorSpec
from serving.runtime.admission import Admission, not_a_buffer
from serving.runtime.array_buffer import array_part, copy_array_rows
from serving.runtime.base import Array, Buffer, numpy_dtype
from serving.runtime.processor import sums_of_bytes_overflow

_DEVICE = "cpu"
_ORT_TYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(uint8)": "uint8",
    "tensor(bool)": "bool",
}


class OrtBuffer:
    """A tensor that ONNX Runtime owns."""

    def __init__(self, value: Any, lent: Array | None = None) -> None:
        """Keep a value.

        Args:
            value: the ``OrtValue``.
            lent: the array whose memory it is; that of a value without one is the runtime's.
        """
        self.value = value
        self._lent = lent

    @classmethod
    def over(cls, array: Array) -> OrtBuffer:
        """A tensor in the memory of an array."""
        return cls(ort.OrtValue.ortvalue_from_numpy(array, _DEVICE), array)

    @property
    def address(self) -> int:
        """Where the first element lies."""
        return int(self.value.data_ptr())

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return int(self.value.tensor_size_in_bytes())

    def numpy(self) -> Array:
        """The contents."""
        # A view that the runtime makes of lent memory does not keep it: it would outlive what it shows.
        array: Array = self.value.numpy() if self._lent is None else self._lent
        return array

    def write(self, array: Array) -> None:
        """Replace the contents."""
        self.value.update_inplace(np.ascontiguousarray(array))

    def part(self, begin: int, shape: tuple[int, ...]) -> OrtBuffer:
        """A part of the same memory."""
        return OrtBuffer.over(array_part(self.numpy(), begin, shape))

    def copy_rows(self, sources: Sequence[int], targets: Sequence[int], positions: int | None = None) -> None:
        """Copy rows to others, all at once."""
        copy_array_rows(self.numpy(), sources, targets, positions)


class OrtRunner:
    """One ONNX graph on the CPU provider."""

    def __init__(self, path: Path, signature: GraphSignature, threads: int = 1, record: Path | None = None) -> None:
        """Load a graph and hold it to its signature.

        Args:
            path: the ``.onnx`` file.
            signature: what its manifest says of it.
            threads: for the work inside one operator; small models are fastest with one.
            record: the beginning of a file's name, into which the runtime writes what each node took.

        Raises:
            ArtefactError: ONNX Runtime cannot load the file, or its inputs and outputs are not the signature's.
        """
        self._signature = signature
        self._admission = Admission(signature)
        self._session = _session(path, threads, record)
        _check(self._session, signature, path)

    @property
    def signature(self) -> GraphSignature:
        """What goes in and what comes out."""
        return self._signature

    def allocate(self, name: str, sizes: Mapping[str, int]) -> OrtBuffer:
        """A zeroed buffer for the input of that name."""
        spec = self._signature.input(name)
        shape = spec.shape(sizes)
        self._signature.check(spec, spec.dtype, shape)
        zeros = np.zeros(shape, numpy_dtype(spec.dtype))
        return OrtBuffer.over(zeros)

    def run(self, feeds: Mapping[str, Array | Buffer]) -> dict[str, Buffer]:
        """Run the graph once; see :class:`serving.runtime.base.Runner`."""
        self._admission.require_names(feeds)
        binding = self._session.io_binding()
        bound = {spec.name: _bound(spec, feeds[spec.name], self._admission) for spec in self._signature.inputs}
        for name, buffer in bound.items():
            binding.bind_ortvalue_input(name, buffer.value)
        for spec in self._signature.outputs:
            self._bind_output(binding, spec.name, feeds, bound)
        self._session.run_with_iobinding(binding)
        names = [spec.name for spec in self._signature.outputs]
        produced = dict(zip(names, binding.get_outputs(), strict=True))
        aliases = self._signature.aliases
        return {name: bound[aliases[name]] if name in aliases else OrtBuffer(produced[name]) for name in names}

    def end_record(self) -> Path:
        """Stop recording; the file that was written, in Chrome's trace format."""
        return Path(self._session.end_profiling())

    def _bind_output(
        self, binding: Any, name: str, feeds: Mapping[str, Array | Buffer], bound: Mapping[str, OrtBuffer]
    ) -> None:
        source = self._signature.aliases.get(name)
        if source is None:
            binding.bind_output(name, _DEVICE)
            return
        if not isinstance(feeds[source], OrtBuffer):
            raise not_a_buffer(source, feeds[source])
        binding.bind_ortvalue_output(name, bound[source].value)


def _session(path: Path, threads: int, record: Path | None) -> Any:
    options = ort.SessionOptions()
    options.enable_profiling = record is not None
    options.profile_file_prefix = str(record or "")
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if sums_of_bytes_overflow():
        options.add_session_config_entry("session.x64quantprecision", "1")
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exceptions have no public common base
        raise ArtefactError(f"an ONNX graph at {path}", str(error), "export the model again") from error


def _check(session: Any, signature: GraphSignature, path: Path) -> None:
    wanted = [(spec.name, spec.dtype, list(spec.axes)) for spec in (*signature.inputs, *signature.outputs)]
    values = (*session.get_inputs(), *session.get_outputs())
    found = [(value.name, _ORT_TYPES.get(value.type, value.type), list(value.shape)) for value in values]
    for want, have in zip(wanted, found, strict=False):
        if want != have:
            raise ArtefactError(f"{want} in {path}, as its manifest says", str(have), "export the model again")
    if len(wanted) != len(found):
        raise ArtefactError(f"{len(wanted)} tensors in {path}, as its manifest says", str(len(found)), "export again")


def _bound(spec: TensorSpec, feed: Array | Buffer, admission: Admission) -> OrtBuffer:
    if isinstance(feed, OrtBuffer):
        admission.require(spec, _ORT_TYPES[feed.value.data_type()], tuple(feed.value.shape()))
        return feed
    array = np.ascontiguousarray(feed if isinstance(feed, np.ndarray) else feed.numpy())
    admission.require(spec, array.dtype.name, array.shape)
    return OrtBuffer(ort.OrtValue.ortvalue_from_numpy(array, _DEVICE))
