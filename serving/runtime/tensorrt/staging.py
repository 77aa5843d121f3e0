"""Where the inputs of a run that come as arrays lie on the device, one set of places for runs that may overlap."""

from __future__ import annotations

from collections.abc import Mapping

from serving.runtime.base import Array
from serving.runtime.tensorrt.device import Device, Memory


class Staging:
    """A place for each input, as large as the largest that was put there."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._places: dict[str, Memory] = {}
        self._filled, self._read = device.driver.event(), device.driver.event()

    def fill(self, arrays: Mapping[str, Array]) -> dict[str, int]:
        """Queue the copies of arrays, behind the run that reads what lies there; runs queued next begin behind them.

        Returns:
            Input → address.
        """
        device, driver = self._device, self._device.driver
        driver.wait_for(device.inward, self._read)
        addresses = {name: self._place(name, array.nbytes) for name, array in arrays.items()}
        for name, array in arrays.items():
            device.put(addresses[name], array, device.inward)
        driver.record(self._filled, device.inward)
        driver.wait_for(device.compute, self._filled)
        return addresses

    def was_read(self) -> None:
        """Say that the run which reads the places has been queued."""
        self._device.driver.record(self._read, self._device.compute)

    def _place(self, name: str, nbytes: int) -> int:
        held = self._places.get(name)
        if held is None or held.nbytes < nbytes:
            # What held it is freed behind ``compute``, which waits for the copies that were made into it.
            held = self._places[name] = self._device.memory(1 << max(nbytes - 1, 0).bit_length(), self._device.inward)
        return held.address
