"""An engine at work under one optimization profile: shapes, addresses, and a run queued."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from attendant.errors import MachineError
from serving.runtime.tensorrt.api import CudaEngine
from serving.runtime.tensorrt.device import Device, Memory

Shapes = Mapping[str, tuple[int, ...]]
MOST = 64
"""Contexts that are kept; the one that was not used for longest makes room."""


class Execution:
    """One execution context. Those of a runner share the memory between inputs and outputs, and run one by one."""

    def __init__(self, engine: CudaEngine, strategy: Any, device: Device, profile: int, between: Memory) -> None:
        """Choose a profile.

        Args:
            engine: what is run.
            strategy: TensorRT's word for contexts to which memory is lent.
            device: where.
            profile: the number of the profile.
            between: as much memory as the engine says that it needs.
        """
        self._device, self._between = device, between
        self._context = engine.create_execution_context(strategy)
        self._context.set_device_memory(between.address, between.nbytes)
        self._require(self._context.set_optimization_profile_async(profile, device.compute), f"profile {profile}")
        self._shapes: dict[str, tuple[int, ...]] = {}

    def take(self, shapes: Shapes) -> None:
        """State the shapes of the inputs."""
        for name, shape in shapes.items():
            if self._shapes.get(name) != shape:
                self._require(self._context.set_input_shape(name, shape), f"{name!r} of shape {shape}")
                self._shapes[name] = shape

    def shape_of(self, output: str) -> tuple[int, ...]:
        """The shape of an output, for the shapes of the inputs that were stated."""
        return tuple(self._context.get_tensor_shape(output))

    def bind(self, addresses: Mapping[str, int]) -> None:
        for name, address in addresses.items():
            self._require(self._context.set_tensor_address(name, address), f"{name!r} at {address:#x}")

    def queue(self) -> None:
        self._require(self._context.execute_async_v3(self._device.compute), "a run")

    def _require(self, accepted: bool, what: str) -> None:
        if not accepted:
            raise MachineError(f"TensorRT to accept {what}", "that it refused", "read its log (logger `tensorrt`)")


class Executions:
    """Those of one runner, each for runs of one kind: a context whose shapes never change cannot leak by a change."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._known: OrderedDict[Hashable, Execution] = OrderedDict()

    def of(self, kind: Hashable, make: Callable[[], Execution]) -> Execution:
        """The execution of a kind, made where it was not met before."""
        if kind not in self._known:
            self._known[kind] = make()
            if len(self._known) > MOST:
                self._device.driver.finish(self._device.compute)  # it may be running still
                self._known.popitem(last=False)
        self._known.move_to_end(kind)
        return self._known[kind]
