"""TensorRT behind the Runner protocol: buffers on the device, caches bound at one address, decode steps as CUDA graphs.

A run is queued and not waited for. While it computes, the inputs of the next one are copied; reading a result waits.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from attendant.engine_manifest import Engine
from attendant.errors import InputError
from attendant.signature import GraphSignature
from serving.runtime.base import Admission, Array, Buffer, numpy_dtype
from serving.runtime.tensorrt.api import CudaEngine
from serving.runtime.tensorrt.binding import Binding
from serving.runtime.tensorrt.buckets import lengthen, of_runs, of_steps
from serving.runtime.tensorrt.device import Device
from serving.runtime.tensorrt.device_buffer import DeviceBuffer, allocate_zeros, cut, unset
from serving.runtime.tensorrt.execution import Execution, Executions, Shapes
from serving.runtime.tensorrt.library import load_engine, tensorrt_module
from serving.runtime.tensorrt.phases import Phase, Phases
from serving.runtime.tensorrt.recorded_steps import RecordedStep, RecordedSteps
from serving.runtime.tensorrt.staging import Staging

_BITS = numpy_dtype("bfloat16").name


class TrtRunner:
    """One graph's engine, or the engines of its phases."""

    def __init__(
        self, engines: Sequence[tuple[CudaEngine, Engine]], signature: GraphSignature, device: Device, strategy: Any
    ) -> None:
        """Hold engines to their graph's signature, and allocate what their runs share.

        Args:
            engines: ready to run, each with what its manifest says of it.
            signature: of the graph that they were built from.
            device: where they run; runners that hand buffers to each other have the same.
            strategy: TensorRT's word for contexts to which memory is lent.

        Raises:
            ArtefactError: an engine has other tensors than the signature.
        """
        self._signature, self._device, self._strategy = signature, device, strategy
        self._admission, self._phases = Admission(signature), Phases(engines, signature)
        with device.turn():
            self._between = device.memory(self._phases.between_bytes)
            self._executions = Executions(device)
            self._stagings = [Staging(device), Staging(device)]
            self._staging_of_steps, self._steps = Staging(device), RecordedSteps(device)

    @classmethod
    def load(cls, folder: Path, described: Sequence[Engine], signature: GraphSignature, device: Device) -> TrtRunner:
        """A runner of the files of a graph's engines.

        Raises:
            MachineError: there is no TensorRT.
            ArtefactError: TensorRT cannot read a file, or it has other tensors than the signature.
        """
        strategy = tensorrt_module().ExecutionContextAllocationStrategy.USER_MANAGED
        return cls([(load_engine(folder, one), one) for one in described], signature, device, strategy)

    @property
    def signature(self) -> GraphSignature:
        return self._signature

    def allocate(self, name: str, sizes: Mapping[str, int]) -> DeviceBuffer:
        """A zeroed buffer for the input of that name."""
        spec = self._signature.input(name)
        shape = spec.shape(sizes)
        self._signature.check(spec, spec.dtype, shape)
        return allocate_zeros(self._device, spec.dtype, shape)

    def run(self, feeds: Mapping[str, Array | Buffer]) -> dict[str, Buffer]:
        self._admission.require_names(feeds)
        for source in self._signature.aliases.values():
            if not self._is_here(feeds[source]):
                raise InputError(
                    f"a buffer of this runner for {source!r}, which the graph updates in place",
                    type(feeds[source]).__name__,
                    f"allocate it once with runner.allocate({source!r}, sizes)",
                )
        with self._device.turn():
            given = [(spec.name, feeds[spec.name]) for spec in self._signature.inputs]
            buffers = {name: feed for name, feed in given if self._is_here(feed)}
            arrays = {
                name: np.ascontiguousarray(feed if isinstance(feed, np.ndarray) else feed.numpy())
                for name, feed in given
                if name not in buffers
            }
            self._admit(buffers, arrays)
            phase = self._phases.find(_shapes(buffers, arrays))
            made = (self._run_recorded if phase.repeats else self._once)(phase, buffers, arrays)
        aliases = self._signature.aliases
        names = [spec.name for spec in self._signature.outputs]
        return {name: buffers[aliases[name]] if name in aliases else made[name] for name in names}

    def _once(
        self, phase: Phase, buffers: dict[str, DeviceBuffer], arrays: dict[str, Array]
    ) -> dict[str, DeviceBuffer]:
        self._stagings.reverse()  # the other one may still be read
        staging, unpadded = self._stagings[0], _shapes(buffers, arrays)
        leaks = bool(phase.described.plugins)
        arrays = lengthen(self._signature, arrays, of_runs(self._signature) if leaks else ())
        shapes = _shapes(buffers, arrays)
        execution = self._executions.of((phase, tuple(shapes.items()) if leaks else ()), lambda: self._execution(phase))
        binding = self._create_binding(phase, execution, shapes, buffers, staging.fill(arrays))
        binding.queue()
        staging.was_read()
        made = binding.made
        if unpadded == shapes:
            return made
        sizes = {
            symbol: size
            for spec in self._signature.inputs
            for symbol, size in zip(spec.axes, unpadded[spec.name], strict=True)
        }
        specs = {spec.name: spec for spec in self._signature.outputs}
        kept = {
            name: tuple(sizes.get(axis, size) for axis, size in zip(specs[name].axes, buffer.shape, strict=True))
            for name, buffer in made.items()
        }
        return {name: cut(self._device, buffer, kept[name]) for name, buffer in made.items()}

    def _run_recorded(
        self, phase: Phase, buffers: dict[str, DeviceBuffer], arrays: dict[str, Array]
    ) -> dict[str, DeviceBuffer]:
        staging = self._staging_of_steps
        arrays = lengthen(self._signature, arrays, of_steps(self._signature))
        shapes, staged = _shapes(buffers, arrays), staging.fill(arrays)
        addresses = ((name, buffer.address) for name, buffer in buffers.items())
        key: Hashable = phase, tuple(shapes.items()), tuple(addresses), tuple(staged.items())

        def make() -> RecordedStep:
            binding = self._create_binding(phase, self._execution(phase), shapes, buffers, staged)
            return RecordedStep(binding.queue, binding.made)

        lasting = self._steps.run(key, make)
        staging.was_read()
        return {name: self._copy(buffer) for name, buffer in lasting.items()}

    def _create_binding(
        self,
        phase: Phase,
        execution: Execution,
        shapes: Shapes,
        buffers: Mapping[str, DeviceBuffer],
        staged: Mapping[str, int],
    ) -> Binding:
        given = self._device, self._signature, phase.at_one_address
        return Binding(*given, execution, shapes, buffers, staged)

    def _copy(self, buffer: DeviceBuffer) -> DeviceBuffer:
        copied = unset(self._device, buffer.dtype, buffer.shape)
        self._device.driver.copy(copied.address, buffer.address, buffer.nbytes, self._device.compute)
        return copied

    def _execution(self, phase: Phase) -> Execution:
        return Execution(phase.engine, self._strategy, self._device, phase.number, self._between)

    def _admit(self, buffers: Mapping[str, DeviceBuffer], arrays: Mapping[str, Array]) -> None:
        for spec in self._signature.inputs:
            given = buffers[spec.name] if spec.name in buffers else arrays[spec.name]
            dtype = given.dtype if isinstance(given.dtype, str) else given.dtype.name
            bits = spec.dtype == "bfloat16" and dtype == _BITS
            self._admission.require(spec, spec.dtype if bits else dtype, given.shape)

    def _is_here(self, feed: Array | Buffer) -> TypeGuard[DeviceBuffer]:
        return isinstance(feed, DeviceBuffer) and feed.is_on(self._device)


def _shapes(buffers: Mapping[str, DeviceBuffer], arrays: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    return {name: given.shape for given_by in (buffers, arrays) for name, given in given_by.items()}
