"""ONNX Runtime behind the Runner protocol: IOBinding throughout, caches bound as input and as output, never copied."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from attendant.errors import ArtefactError, InputError
from attendant.signature import GraphSignature
from serving.runtime.base import Admission, Array, Buffer, array_part, copy_array_rows, not_a_buffer, numpy_dtype
from serving.runtime.ort.binding_pool import BindingPool
from serving.runtime.processor import sums_of_bytes_overflow

_DEVICE = "cpu"
# Over caches in 8 bits, queries times keys are products of bytes, too: ONNX Runtime asks for this by its environment
# alone, and reads it at the first such product. The parity check and the budgets are measured with it.
_QUERIES_IN_8_BITS = ("ORT_MLAS_QKGEMM_S8_APPROX_VNNI", "1")
_ORT_TYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(uint8)": "uint8",
    "tensor(int8)": "int8",
    "tensor(uint64)": "uint64",
    "tensor(bool)": "bool",
}
_NAMES = {np.dtype(name): name for name in _ORT_TYPES.values()}  # NumPy works the name out at every call


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
        return int(self.value.data_ptr())

    @property
    def nbytes(self) -> int:
        return int(self.value.tensor_size_in_bytes())

    def numpy(self) -> Array:
        # A view that the runtime makes of lent memory does not keep it: it would outlive what it shows.
        array: Array = self.value.numpy() if self._lent is None else self._lent
        return array

    def write(self, array: Array) -> None:
        """Replace the contents.

        Raises:
            InputError: the array has another type or shape; the runtime would take its bytes for what they are not.
        """
        held = _ORT_TYPES[self.value.data_type()], tuple(self.value.shape())
        if (array.dtype.name, array.shape) != held:
            raise InputError(f"{held[0]} {held[1]} to write", f"{array.dtype.name} {array.shape}", "convert it first")
        self.value.update_inplace(np.ascontiguousarray(array))

    def part(self, begin: int, shape: tuple[int, ...]) -> OrtBuffer:
        return OrtBuffer.over(array_part(self.numpy(), begin, shape))

    def copy_rows(self, sources: Sequence[int], targets: Sequence[int], positions: int | None = None) -> None:
        copy_array_rows(self.numpy(), sources, targets, positions)


class OrtRunner:
    """One ONNX graph on the CPU provider."""

    def __init__(
        self,
        path: Path,
        signature: GraphSignature,
        threads: int = 1,
        record: Path | None = None,
        kernels: Path | None = None,
    ) -> None:
        """Load a graph and hold it to its signature.

        Args:
            path: the ``.onnx`` file.
            signature: what its manifest says of it.
            threads: for the work inside one operator; small models are fastest with one.
            record: the beginning of a file's name, into which the runtime writes what each node took.
            kernels: the library of operators that the graph needs beside the runtime's own.

        Raises:
            ArtefactError: ONNX Runtime cannot load the file, or its inputs and outputs are not the signature's.
        """
        self._signature = signature
        self._admission = Admission(signature)
        self._names = {spec.name for spec in signature.inputs}
        self._updated_inputs = set(signature.aliases.values())
        if any(spec.dtype == "int8" for spec in signature.inputs):
            os.environ.setdefault(*_QUERIES_IN_8_BITS)  # noqa: TID251  (the runtime has no other switch)
        self._session = _session(path, threads, record, kernels)
        expected = [(spec.name, spec.dtype, list(spec.axes)) for spec in (*signature.inputs, *signature.outputs)]
        values = (*self._session.get_inputs(), *self._session.get_outputs())
        found = [(value.name, _ORT_TYPES.get(value.type, value.type), list(value.shape)) for value in values]
        for expected_one, have in zip(expected, found, strict=False):
            if expected_one != have:
                raise ArtefactError(
                    f"{expected_one} in {path}, as its manifest says", str(have), "export the model again"
                )
        if len(expected) != len(found):
            raise ArtefactError(
                f"{len(expected)} tensors in {path}, as its manifest says", str(len(found)), "export again"
            )
        self._bindings = BindingPool(self._session, [spec.name for spec in signature.outputs], signature.aliases)

    @property
    def signature(self) -> GraphSignature:
        return self._signature

    def allocate(self, name: str, sizes: Mapping[str, int]) -> OrtBuffer:
        """A zeroed buffer for the input of that name."""
        spec = self._signature.input(name)
        shape = spec.shape(sizes)
        self._signature.check(spec, spec.dtype, shape)
        zeros = np.zeros(shape, numpy_dtype(spec.dtype))
        return OrtBuffer.over(zeros)

    def run(self, feeds: Mapping[str, Array | Buffer]) -> dict[str, Buffer]:
        if self._names != feeds.keys():
            self._admission.require_names(feeds)
        with self._bindings.borrow() as binding:
            changed = [name for name in feeds if not binding.holds(name, feeds[name])]
            produced = binding.run({name: self._admit_feed(name, feeds[name]) for name in changed})
        aliases = self._signature.aliases
        return {
            spec.name: OrtBuffer(produced[spec.name])
            if spec.name in produced
            else _as_buffer(feeds[aliases[spec.name]])
            for spec in self._signature.outputs
        }

    def end_record(self) -> Path:
        """Stop recording; the file that was written, in Chrome's trace format."""
        return Path(self._session.end_profiling())

    def _admit_feed(self, name: str, feed: Array | Buffer) -> Array | OrtBuffer:
        spec = self._signature.input(name)
        if isinstance(feed, OrtBuffer):
            self._admission.require(spec, _ORT_TYPES[feed.value.data_type()], tuple(feed.value.shape()))
            return feed
        if name in self._updated_inputs:
            raise not_a_buffer(name, feed)
        array = np.ascontiguousarray(feed if isinstance(feed, np.ndarray) else feed.numpy())
        self._admission.require(spec, _NAMES.get(array.dtype) or array.dtype.name, array.shape)
        return array


def _as_buffer(feed: Array | Buffer) -> Buffer:
    assert not isinstance(feed, np.ndarray)  # which was refused
    return feed


_shares, _shared = False, list[int]()


def share_threads() -> None:
    """From now on, let all sessions of this process share as many threads as the first asks for that wants several.

    With threads of its own each session's spin for a while once it is done, on the processors of the next one's. To be
    called in a process of ours alone: no session of others can then have threads of its own.
    """
    global _shares
    _shares = True


def _session(path: Path, threads: int, record: Path | None, kernels: Path | None) -> Any:
    options = ort.SessionOptions()
    options.enable_profiling = record is not None
    options.profile_file_prefix = str(record or "")
    if _shares:
        if not _shared:
            ort.set_global_thread_pool_sizes(threads, 1)
            _shared.append(threads)
        options.use_per_session_threads = False
    else:
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # What that fusion makes takes several times as long as the sum and the norm that it was made of (docs/log.md).
    options.add_session_config_entry("optimization.disable_specified_optimizers", "SkipLayerNormFusion")
    widen_sums_of_bytes(options)
    try:
        if kernels is not None:
            options.register_custom_ops_library(str(kernels))
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exceptions have no public common base
        raise ArtefactError(f"an ONNX graph at {path}", str(error), "export the model again") from error


def widen_sums_of_bytes(options: Any) -> None:
    """Have a session sum products of bytes in 32 bits on a processor that would in 16.

    ONNX Runtime does it by making signed weights unsigned. Their zeros may not be left out where there are many: it
    then puts one where many belong.

    Args:
        options: the ``SessionOptions``, which are changed.
    """
    if sums_of_bytes_overflow():
        options.add_session_config_entry("session.x64quantprecision", "1")


class RowByRow:
    """A runner of one lowered decoder graph."""

    def __init__(self, runner: OrtRunner) -> None:
        self._runner = runner

    @property
    def signature(self) -> GraphSignature:
        return self._runner.signature

    def allocate(self, name: str, sizes: Mapping[str, int]) -> OrtBuffer:
        """A zeroed buffer for the input of that name."""
        return self._runner.allocate(name, sizes)

    def run(self, feeds: Mapping[str, Array | Buffer]) -> dict[str, Buffer]:
        if not _is_too_much_at_once(feeds):
            return self._runner.run(feeds)
        rows = [self._runner.run(_row(feeds, row)) for row in range(len(_array(feeds["start"])))]
        aliases = self.signature.aliases
        return {
            spec.name: _as_buffer(feeds[aliases[spec.name]])
            if spec.name in aliases
            else OrtBuffer.over(_join_rows([row[spec.name].numpy() for row in rows]))
            for spec in self.signature.outputs
        }


def _is_too_much_at_once(feeds: Mapping[str, Array | Buffer]) -> bool:
    if "token_ids" not in feeds or "start" not in feeds:
        return False  # which the runner tells
    shape = _array(feeds["token_ids"]).shape
    return len(shape) == 2 and min(shape) > 1 and bool(_array(feeds["start"]).any())


def _row(feeds: Mapping[str, Array | Buffer], row: int) -> dict[str, Array | Buffer]:
    one: dict[str, Array | Buffer] = {}
    for name, feed in feeds.items():
        part = _array(feed)[row : row + 1]
        one[name] = part if isinstance(feed, np.ndarray) else OrtBuffer.over(part)
    attended = int(_array(feeds["start"])[row]) + _array(feeds["token_ids"]).shape[1]
    return {**one, "self_mask": np.ascontiguousarray(_array(one["self_mask"])[..., :attended])}


def _join_rows(rows: Sequence[Array]) -> Array:
    # Each attends to as many positions as it has: of weights over them, zeros stand behind a shorter row's.
    width = max(row.shape[-1] for row in rows)
    whole = [
        row if row.shape[-1] == width else np.pad(row, [(0, 0)] * (row.ndim - 1) + [(0, width - row.shape[-1])])
        for row in rows
    ]
    joined: Array = np.concatenate(whole)
    return joined


def _array(feed: Array | Buffer) -> Array:
    return feed if isinstance(feed, np.ndarray) else feed.numpy()
