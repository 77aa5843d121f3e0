"""A tensor on the device behind the Buffer protocol."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from attendant.errors import InputError
from serving.runtime.base import Array, numpy_dtype
from serving.runtime.tensorrt.device import Device, Memory


class DeviceBuffer:
    """A tensor, or a part of one.

    Attributes:
        dtype: its element type, as signatures call it.
        shape: its axes.
    """

    def __init__(self, device: Device, memory: Memory, dtype: str, shape: tuple[int, ...], begin: int = 0) -> None:
        """Look at memory.

        Args:
            device: that it lies on.
            memory: kept as long as somebody looks at it.
            dtype: element type.
            shape: axes.
            begin: how many elements of the memory lie before the first.
        """
        self.dtype, self.shape = dtype, shape
        self._device, self._memory, self._begin = device, memory, begin
        self._stored = numpy_dtype(dtype)

    @property
    def address(self) -> int:
        return self._memory.address + self._begin * self._stored.itemsize

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self._stored.itemsize

    def is_on(self, device: Device) -> bool:
        """Whether a runner of that device can be given it as it is."""
        return self._device is device

    def numpy(self) -> Array:
        """A copy of the contents, once every run that writes to them is done."""
        with self._device.turn():
            return self._device.get(self.address, self._stored, self.shape)

    def write(self, array: Array) -> None:
        """Replace the contents, behind the runs that were requested."""
        if array.dtype != self._stored or array.shape != self.shape:
            raise InputError(
                f"an array of type {self._stored} and shape {self.shape}",
                f"{array.dtype} {array.shape}",
                "convert or reshape it before it is written",
            )
        with self._device.turn():
            self._device.put(self.address, array, self._device.compute)

    def part(self, begin: int, shape: tuple[int, ...]) -> DeviceBuffer:
        assert begin >= 0 and begin + prod(shape) <= prod(self.shape), "a part lies inside"
        return DeviceBuffer(self._device, self._memory, self.dtype, shape, self._begin + begin)

    def copy_rows(self, sources: Sequence[int], targets: Sequence[int], positions: int | None = None) -> None:
        """Copy rows to others, all at once, without the host."""
        rows = _Rows.of(self.shape, self._stored.itemsize, positions)
        with self._device.turn():
            if not set(sources) & set(targets):
                for source, target in zip(sources, targets, strict=True):
                    self._copy(self.address + target * rows.pitch, rows, self.address + source * rows.pitch, rows)
                return
            pack = rows.pack()
            between = self._device.memory(pack.pitch * len(sources))
            for number, source in enumerate(sources):
                self._copy(between.address + number * pack.pitch, pack, self.address + source * rows.pitch, rows)
            for number, target in enumerate(targets):
                self._copy(self.address + target * rows.pitch, rows, between.address + number * pack.pitch, pack)

    def _copy(self, target: int, target_rows: _Rows, source: int, source_rows: _Rows) -> None:
        driver, stream = self._device.driver, self._device.compute
        nbytes, lines = source_rows.nbytes, source_rows.lines
        if lines == 1:
            driver.copy(target, source, nbytes, stream)
        else:
            driver.copy_lines(target, target_rows.line_pitch, source, source_rows.line_pitch, nbytes, lines, stream)


class _Rows:
    def __init__(self, pitch: int, line_pitch: int, nbytes: int, lines: int) -> None:
        self.pitch, self.line_pitch, self.nbytes, self.lines = pitch, line_pitch, nbytes, lines

    @classmethod
    def of(cls, shape: tuple[int, ...], itemsize: int, positions: int | None) -> _Rows:
        pitch = prod(shape[1:]) * itemsize
        if positions is None or positions == shape[2]:
            return cls(pitch, pitch, pitch, 1)
        line = prod(shape[2:]) * itemsize
        return cls(pitch, line, positions * prod(shape[3:]) * itemsize, shape[1])

    def pack(self) -> _Rows:
        return _Rows(self.nbytes * self.lines, self.nbytes, self.nbytes, self.lines)


def allocate_zeros(device: Device, dtype: str, shape: tuple[int, ...]) -> DeviceBuffer:
    """A new tensor of zeros."""
    with device.turn():
        buffer = unset(device, dtype, shape)
        device.driver.zero(buffer.address, buffer.nbytes, device.compute)
    return buffer


def unset(device: Device, dtype: str, shape: tuple[int, ...]) -> DeviceBuffer:
    """A new tensor that holds whatever lay there."""
    return DeviceBuffer(device, device.memory(prod(shape) * np.dtype(numpy_dtype(dtype)).itemsize), dtype, shape)


def cut(device: Device, buffer: DeviceBuffer, shape: tuple[int, ...]) -> DeviceBuffer:
    """The first elements along every axis, as a tensor of its own where they do not lie side by side."""
    for at, size in enumerate(shape):
        if buffer.shape[at] == size:
            continue
        lines, stored = prod(buffer.shape[:at]), np.dtype(numpy_dtype(buffer.dtype)).itemsize
        pitch = prod(buffer.shape[at:]) * stored
        kept = (*buffer.shape[:at], size, *buffer.shape[at + 1 :])
        if lines == 1:
            buffer = buffer.part(0, kept)
            continue
        shorter = unset(device, buffer.dtype, kept)
        given = shorter.address, shorter.nbytes // lines, buffer.address, pitch, shorter.nbytes // lines, lines
        device.driver.copy_lines(*given, device.compute)
        buffer = shorter
    return buffer
