"""Steps that come again and again, each as one CUDA graph with an execution context of its own.

The first of its kind runs as it is, which TensorRT asks for before a recording; the second is recorded; every later one
is one launch. Source: TensorRT's developer guide, CUDA graphs: one context a graph, memory between them shared.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from serving.runtime.tensorrt.device import Device
from serving.runtime.tensorrt.device_buffer import DeviceBuffer
from serving.runtime.tensorrt.driver import Recording

MOST = 256
"""Recordings that are kept; the one that was not used for longest makes room."""


@dataclass(slots=True)
class RecordedStep:
    """One kind of step: fixed shapes, fixed addresses.

    Attributes:
        queue: queues it.
        outputs: where its results lie, until it runs again.
        has_run: whether it has.
        recording: of what it queues.
    """

    queue: Callable[[], None]
    outputs: dict[str, DeviceBuffer]
    has_run: bool = False
    recording: Recording | None = None


class RecordedSteps:
    """The steps of one runner."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._steps: OrderedDict[Hashable, RecordedStep] = OrderedDict()

    def run(self, key: Hashable, make: Callable[[], RecordedStep]) -> dict[str, DeviceBuffer]:
        """Run a step.

        Args:
            key: its shapes and addresses.
            make: makes it, where it was not met before.

        Returns:
            Where its results lie, until it runs again.
        """
        step = self._steps.get(key)
        if step is None:
            step = self._steps[key] = make()
            self._make_room()
        self._steps.move_to_end(key)
        if not step.has_run:
            step.queue()
            step.has_run = True
            return step.outputs
        if step.recording is None:
            step.recording = self._device.record(step.queue)
        self._device.driver.replay(step.recording, self._device.compute)
        return step.outputs

    def _make_room(self) -> None:
        while len(self._steps) > MOST:
            _, step = self._steps.popitem(last=False)
            if step.recording is not None:
                self._device.driver.finish(self._device.compute)  # it may be running still
                self._device.driver.forget(step.recording)
