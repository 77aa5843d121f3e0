"""TensorRT behind the Runner protocol: buffers on the device, caches bound at one address, decode steps as CUDA graphs.

A run is queued and not waited for. While it computes, the inputs of the next one are copied; reading a result waits.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from models.engine_manifest import Engine
from models.errors import InputError
from models.signature import GraphSignature
from serving.runtime.admission import Admission
from serving.runtime.base import Array, Buffer, numpy_dtype
from serving.runtime.trt.api import CudaEngine
from serving.runtime.trt.binding import Binding
from serving.runtime.trt.buckets import lengthened
from serving.runtime.trt.device import Device
from serving.runtime.trt.device_buffer import DeviceBuffer, unset, zeroed
from serving.runtime.trt.engine_check import require_signature
from serving.runtime.trt.execution import Execution, Shapes
from serving.runtime.trt.library import load_engine, tensorrt_module
from serving.runtime.trt.recorded_steps import RecordedSteps, Step
from serving.runtime.trt.staging import Staging

PREFILL = "prefill"
"""The profile of steps over several positions, of whatever length: these are not recorded."""

_BITS = numpy_dtype("bfloat16").name


class TrtRunner:
    """One graph's engine."""

    def __init__(
        self, engine: CudaEngine, described: Engine, signature: GraphSignature, device: Device, strategy: Any
    ) -> None:
        """Hold an engine to its signature, and allocate what its runs share.

        Args:
            engine: ready to run.
            described: what its manifest says of it.
            signature: of the graph that it was built from.
            device: where it runs; runners that hand buffers to each other have the same.
            strategy: TensorRT's word for contexts to which memory is lent.

        Raises:
            ArtefactError: the engine has other tensors than the signature.
        """
        self._engine, self._described, self._signature, self._device = engine, described, signature, device
        self._strategy = strategy
        self._admission, self._varying = Admission(signature), _varying(signature)
        self._at_one_address = require_signature(engine, described, signature)
        with device.turn():
            self._between = device.memory(engine.device_memory_size_v2)
            self._executions = [self._execution(number) for number in range(len(described.profiles))]
            self._stagings = [Staging(device), Staging(device)]
            self._staging_of_steps, self._steps = Staging(device), RecordedSteps(device)

    @classmethod
    def load(cls, folder: Path, described: Engine, signature: GraphSignature, device: Device) -> TrtRunner:
        """A runner of an engine's file.

        Raises:
            MachineError: there is no TensorRT.
            ArtefactError: TensorRT cannot read the file, or it has other tensors than the signature.
        """
        strategy = tensorrt_module().ExecutionContextAllocationStrategy.USER_MANAGED
        return cls(load_engine(folder, described), described, signature, device, strategy)

    @property
    def signature(self) -> GraphSignature:
        """What goes in and what comes out."""
        return self._signature

    def allocate(self, name: str, sizes: Mapping[str, int]) -> DeviceBuffer:
        """A zeroed buffer for the input of that name."""
        spec = self._signature.input(name)
        shape = spec.shape(sizes)
        self._signature.check(spec, spec.dtype, shape)
        return zeroed(self._device, spec.dtype, shape)

    def run(self, feeds: Mapping[str, Array | Buffer]) -> dict[str, Buffer]:
        """Queue one run of the graph; see :class:`serving.runtime.base.Runner`."""
        self._admission.require_names(feeds)
        self._require_buffers(feeds)
        with self._device.turn():
            given = [(spec.name, feeds[spec.name]) for spec in self._signature.inputs]
            buffers = {name: feed for name, feed in given if self._is_here(feed)}
            arrays = {name: _array(feed) for name, feed in given if name not in buffers}
            self._admit(buffers, arrays)
            profile = self._profile(_shapes(buffers, arrays))
            repeats = bool(self._signature.aliases) and self._described.profiles[profile].name != PREFILL
            made = (self._repeated if repeats else self._once)(profile, buffers, arrays)
        aliases = self._signature.aliases
        names = [spec.name for spec in self._signature.outputs]
        return {name: buffers[aliases[name]] if name in aliases else made[name] for name in names}

    def _once(
        self, profile: int, buffers: dict[str, DeviceBuffer], arrays: dict[str, Array]
    ) -> dict[str, DeviceBuffer]:
        self._stagings.reverse()  # the other one may still be read
        staging, execution = self._stagings[0], self._executions[profile]
        binding = self._binding(execution, _shapes(buffers, arrays), buffers, staging.fill(arrays))
        binding.queue()
        staging.was_read()
        return binding.made

    def _repeated(
        self, profile: int, buffers: dict[str, DeviceBuffer], arrays: dict[str, Array]
    ) -> dict[str, DeviceBuffer]:
        staging, arrays = self._staging_of_steps, lengthened(self._signature, arrays)
        shapes, staged = _shapes(buffers, arrays), staging.fill(arrays)
        addresses = ((name, buffer.address) for name, buffer in buffers.items())
        key: Hashable = profile, tuple(shapes.items()), tuple(addresses), tuple(staged.items())

        def make() -> Step:
            binding = self._binding(self._execution(profile), shapes, buffers, staged)
            return Step(binding.queue, binding.made)

        lasting = self._steps.run(key, make)
        staging.was_read()
        return {name: self._copied(buffer) for name, buffer in lasting.items()}

    def _binding(
        self, execution: Execution, shapes: Shapes, buffers: Mapping[str, DeviceBuffer], staged: Mapping[str, int]
    ) -> Binding:
        given = self._device, self._signature, self._at_one_address
        return Binding(*given, execution, shapes, buffers, staged)

    def _copied(self, buffer: DeviceBuffer) -> DeviceBuffer:
        copied = unset(self._device, buffer.dtype, buffer.shape)
        self._device.driver.copy(copied.address, buffer.address, buffer.nbytes, self._device.compute)
        return copied

    def _execution(self, profile: int) -> Execution:
        return Execution(self._engine, self._strategy, self._device, profile, self._between)

    def _profile(self, shapes: Shapes) -> int:
        for number, profile in enumerate(self._described.profiles):
            if all(_lies_in(shapes[name][axis], axis, profile.shapes[name]) for name, axis in self._varying):
                return number
        raise InputError(
            f"shapes of a profile of {self._described.file}, {[profile.name for profile in self._described.profiles]}",
            str(dict(shapes)),
            "split the request, or build the engine for other sizes",
        )

    def _admit(self, buffers: Mapping[str, DeviceBuffer], arrays: Mapping[str, Array]) -> None:
        for spec in self._signature.inputs:
            given = buffers[spec.name] if spec.name in buffers else arrays[spec.name]
            dtype = given.dtype if isinstance(given.dtype, str) else given.dtype.name
            bits = spec.dtype == "bfloat16" and dtype == _BITS
            self._admission.require(spec, spec.dtype if bits else dtype, given.shape)

    def _is_here(self, feed: Array | Buffer) -> TypeGuard[DeviceBuffer]:
        return isinstance(feed, DeviceBuffer) and feed.is_on(self._device)

    def _require_buffers(self, feeds: Mapping[str, Array | Buffer]) -> None:
        for source in self._signature.aliases.values():
            if not self._is_here(feeds[source]):
                raise InputError(
                    f"a buffer of this runner for {source!r}, which the graph updates in place",
                    type(feeds[source]).__name__,
                    f"allocate it once with runner.allocate({source!r}, sizes)",
                )


def _array(feed: Array | Buffer) -> Array:
    return np.ascontiguousarray(feed if isinstance(feed, np.ndarray) else feed.numpy())


def _shapes(buffers: Mapping[str, DeviceBuffer], arrays: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    return {name: given.shape for given_by in (buffers, arrays) for name, given in given_by.items()}


def _lies_in(size: int, axis: int, bounds: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]) -> bool:
    return bounds[0][axis] <= size <= bounds[2][axis]


def _varying(signature: GraphSignature) -> list[tuple[str, int]]:
    # One place for each symbol: TensorRT refuses inputs that do not agree.
    places = {axis: (spec.name, at) for spec in signature.inputs for at, axis in enumerate(spec.axes)}
    return [places[symbol] for symbol in signature.symbols()]
