"""Where the tensors of a run lie, and what is copied on the device before and behind it.

TensorRT wants addresses that are multiples of 256 (NvInferRuntime.h, setTensorAddress). A block of rows begins at one,
a row in its midst need not: such an input is run on a copy, and a cache among them is copied back.
"""

from __future__ import annotations

from collections.abc import Mapping

from attendant.signature import GraphSignature
from serving.runtime.tensorrt.device import Device
from serving.runtime.tensorrt.device_buffer import DeviceBuffer, unset
from serving.runtime.tensorrt.execution import Execution, Shapes

ALIGNMENT = 256


class Binding:
    """The tensors of one run, which can be queued again and again.

    Attributes:
        made: output → where its result lies, those apart that the engine writes into inputs.
    """

    def __init__(
        self,
        device: Device,
        signature: GraphSignature,
        at_one_address: Mapping[str, str],
        execution: Execution,
        shapes: Shapes,
        buffers: Mapping[str, DeviceBuffer],
        staged: Mapping[str, int],
    ) -> None:
        """State shapes and addresses.

        Args:
            device: where.
            signature: of the graph.
            at_one_address: output → input, where the engine wants both at one address.
            execution: what runs.
            shapes: input → shape.
            buffers: inputs that lie on the device.
            staged: the others → where they have been put.
        """
        self._device, self._execution, self._buffers = device, execution, buffers
        execution.take(shapes)
        self.made = {
            spec.name: unset(device, spec.dtype, execution.shape_of(spec.name))
            for spec in signature.outputs
            if spec.name not in at_one_address
        }
        copied = {name: buffer for name, buffer in buffers.items() if buffer.address % ALIGNMENT}
        self._copies = {name: unset(device, buffer.dtype, buffer.shape) for name, buffer in copied.items()}
        inputs = {name: buffer.address for name, buffer in {**buffers, **self._copies}.items()} | dict(staged)
        in_place = {output: inputs[source] for output, source in at_one_address.items()}
        execution.bind({**inputs, **{name: buffer.address for name, buffer in self.made.items()}, **in_place})
        updated = {source: self._copies[source] for source in at_one_address.values() if source in self._copies}
        moved = {source: self.made[name] for name, source in signature.aliases.items() if name in self.made}
        self._behind = {**updated, **moved}

    def queue(self) -> None:
        """Queue the run, with the copies around it."""
        for name, copy in self._copies.items():
            self._copy(copy, self._buffers[name])
        self._execution.queue()
        for name, written in self._behind.items():
            self._copy(self._buffers[name], written)

    def _copy(self, target: DeviceBuffer, source: DeviceBuffer) -> None:
        self._device.driver.copy(target.address, source.address, source.nbytes, self._device.compute)
