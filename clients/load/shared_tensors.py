"""Tensors in memory that this process and the server share, so that requests carry none.

The inputs of a run never change, so all requests may read the same memory at once. Answers come as without it.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from multiprocessing.shared_memory import SharedMemory
from typing import Any

from numpy.typing import NDArray

from attendant.errors import AttendantError
from clients.load.infer_message import Place, tensor_bytes

Register = Callable[[str, str, int | None], Awaitable[None]]
NOTE = "shared memory"


class SharedTensors:
    """The regions of one run.

    Attributes:
        notes: whether the server took them, for the report.
    """

    def __init__(self, register: Register) -> None:
        """Begin without a region.

        Args:
            register: registers a region by its key and its bytes with the server; unregisters it where bytes are None.
        """
        self.notes: dict[str, str] = {}
        self._register = register
        self._regions: dict[str, SharedMemory] = {}

    async def place(self, inputs: Sequence[Mapping[str, NDArray[Any]]]) -> list[dict[str, Place]] | None:
        """Put tensors into one region, and say where each lies; None where the server refuses it."""
        region = f"attendant_load_{secrets.token_hex(16)}"
        content, places = bytearray(), list[dict[str, Place]]()
        for tensors in inputs:
            places.append({})
            for name, array in tensors.items():
                part = tensor_bytes(array)
                places[-1][name] = (region, len(content), len(part))
                content += part
        try:
            memory = SharedMemory(region, create=True, size=max(1, len(content)))
            try:
                assert memory.buf is not None, "it is open"
                memory.buf[: len(content)] = content
                await self._register(region, f"/{region}", memory.size)
            except BaseException:
                _destroy(memory)
                raise
            self._regions[region] = memory
        except (AttendantError, OSError) as error:
            self.notes[NOTE] = f"refused, tensors are sent: {error}"
            return None
        self.notes[NOTE] = "tensors of requests"
        return places

    async def close(self) -> None:
        """Give all regions back."""
        for region, memory in self._regions.items():
            try:
                await self._register(region, "", None)
            except AttendantError as error:
                self.notes[NOTE] += f"; not unregistered: {error}"
            _destroy(memory)
        self._regions.clear()


def _destroy(memory: SharedMemory) -> None:
    memory.close()
    memory.unlink()
