"""Steps that come again and again, each as one CUDA graph with an execution context of its own.

The first of its kind runs as it is, which TensorRT asks for before a recording; the second is recorded; every later one
is one launch. What a context and a graph take of the GPU's memory is in no interface: it is what is free before them
less what is free behind them, whoever else allocates meanwhile.

Source: TensorRT's developer guide, CUDA graphs: one context a graph, memory between them shared; CUDA's driver API,
cuMemGetInfo.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from serving.runtime.tensorrt.device import Device
from serving.runtime.tensorrt.device_buffer import DeviceBuffer
from serving.runtime.tensorrt.driver import Recording

MOST = 256
"""Steps that are kept; the one that was not used for longest makes room."""
SHARE = 16
"""They take at most one in so many bytes of the GPU's memory together; the newest is kept whatever it takes."""


@dataclass(slots=True)
class RecordedStep:
    """One kind of step: fixed shapes, fixed addresses.

    Attributes:
        queue: queues it.
        outputs: where its results lie, until it runs again.
        has_run: whether it has.
        recording: of what it queues.
        nbytes: of the GPU's memory that its context and its recording took.
    """

    queue: Callable[[], None]
    outputs: dict[str, DeviceBuffer]
    has_run: bool = False
    recording: Recording | None = None
    nbytes: int = 0


class RecordedSteps:
    """The steps of one runner."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._steps: OrderedDict[Hashable, RecordedStep] = OrderedDict()
        self._most_bytes = device.driver.memory()[1] // SHARE

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
            with self._measure() as taken:
                step = self._steps[key] = make()
            step.nbytes += taken[0]
            self._make_room()
        self._steps.move_to_end(key)
        if not step.has_run:
            step.queue()
            step.has_run = True
            return step.outputs
        if step.recording is None:
            with self._measure() as taken:
                step.recording = self._device.record(step.queue)
            step.nbytes += taken[0]
            self._make_room()
        self._device.driver.replay(step.recording, self._device.compute)
        return step.outputs

    @contextmanager
    def _measure(self) -> Iterator[list[int]]:
        before, taken = self._device.driver.memory()[0], [0]
        yield taken
        taken[0] = max(before - self._device.driver.memory()[0], 0)

    def _make_room(self) -> None:
        while len(self._steps) > MOST or (len(self._steps) > 1 and self._nbytes() > self._most_bytes):
            _, step = self._steps.popitem(last=False)
            if step.has_run:
                self._device.driver.finish(self._device.compute)  # it may be running still
            if step.recording is not None:
                self._device.driver.forget(step.recording)

    def _nbytes(self) -> int:
        return sum(step.nbytes for step in self._steps.values())
