"""What Triton and a stub of its Python backend share of their messages: whether one waits, and whether the stub lives.

Source: ``IPCControlShm`` (pb_utils.h), ``MessageQueueShm`` (message_queue.h) and the order of a stub's arguments
(stub_launcher.cc) of triton-inference-server/python_backend, r24.10.
"""

import mmap
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

STUB, REGION, CONTROL = "triton_python_backend_stub", 2, 7
"""The program, and which of its arguments name the region of shared memory and the place of ``IPCControlShm`` in it."""
OWNER_BYTES = 16
"""In front of each object."""
QUEUE = struct.Struct("q")
QUEUE_AT = 88
"""In ``IPCControlShm``: four flags, two mutexes of 40 bytes and the place of the queue."""
STATE = struct.Struct("Qqii")
STATE_AT = 104
"""In ``MessageQueueShm``, behind two semaphores of 32 bytes and a mutex: size, buffer, head and tail."""
MOST_MESSAGES = 1 << 20


class MessagesToStub:
    """The queue of messages from Triton to a stub, and the word for Triton that the stub lives."""

    def __init__(self, region: Path, control: int) -> None:
        """Map it, in a moment in which it is empty.

        Args:
            region: of shared memory.
            control: the place of ``IPCControlShm`` in it.

        Raises:
            ValueError, OSError, struct.error: there is none, as with another Triton's layout.
        """
        with region.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self._control = control + OWNER_BYTES
        (queue,) = QUEUE.unpack_from(self._memory, self._control + QUEUE_AT)
        self._at = queue + OWNER_BYTES + STATE_AT
        size, _, head, tail = STATE.unpack_from(self._memory, self._at)
        if not (0 < size <= MOST_MESSAGES and 0 <= head < size and head == tail):
            raise ValueError(f"{region}: no empty queue of messages at {queue}")

    def say_alive(self) -> None:
        """Let Triton wait for another second, whatever the thread does that says so else."""
        self._memory[self._control] = 1  # IPCControlShm.stub_health

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits there."""
        _, _, head, tail = STATE.unpack_from(self._memory, self._at)
        return bool(head == tail)


def find_messages(arguments: Sequence[str], memory: Path = Path("/dev/shm")) -> MessagesToStub | None:  # noqa: S108  # nosec B108
    """The queue of the stub that was started by these arguments; None if it is none, or cannot be read.

    Args:
        arguments: of the stub's process.
        memory: the folder of the regions.
    """
    if len(arguments) <= CONTROL or not arguments[0].endswith(STUB):
        return None
    try:
        return MessagesToStub(memory / arguments[REGION], int(arguments[CONTROL]))
    except (ValueError, OSError, struct.error) as error:
        sys.stderr.write(f"requests that Triton gives up are not seen: {error}\n")
        return None
