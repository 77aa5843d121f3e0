"""What Triton and a stub of its Python backend share of their messages: whether one waits, and whether the stub lives.

Source: ``IPCControlShm`` (pb_utils.h), ``MessageQueueShm`` (message_queue.h) and the order of a stub's arguments
(stub_launcher.cc) of triton-inference-server/python_backend, r24.10.
"""

import ctypes
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
QUEUE_AT, FROM_STUB_AT = 88, 96
"""In ``IPCControlShm``, behind four flags and two mutexes of 40 bytes: where the queues to a stub and from it are."""
CONTROL_PLACE = 336
"""Of ``IPCControlShm``, the first object in a region."""
FILLED_AT, MUTEX_AT = 32, 64
"""In ``MessageQueueShm``, behind the semaphore of places that are empty: that of those that are not, and the mutex."""
STATE = struct.Struct("Qqii")
STATE_AT = 104
"""In it, behind two semaphores of 32 bytes and a mutex: size, buffer, head and tail."""
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


class FirstMessage:
    """That of a stub to Triton, which waits for it without end, also for a stub that is dead."""

    def __init__(self, region: Path) -> None:
        """Map the queues.

        Args:
            region: of shared memory.

        Raises:
            ValueError, OSError, struct.error: there are none, as with another Triton's layout, or not yet.
        """
        with region.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        at = CONTROL_PLACE + OWNER_BYTES
        self._queues = [QUEUE.unpack_from(self._memory, at + one)[0] + OWNER_BYTES for one in (QUEUE_AT, FROM_STUB_AT)]
        for queue in self._queues:
            size, _, head, tail = STATE.unpack_from(self._memory, queue + STATE_AT)
            if not (0 < size <= MOST_MESSAGES and 0 <= head < size and 0 <= tail < size):
                raise ValueError(f"{region}: no queue of messages at {queue}")

    @property
    def is_awaited(self) -> bool:
        """Whether nothing was ever said, by either."""
        return all(STATE.unpack_from(self._memory, queue + STATE_AT)[2:] == (0, 0) for queue in self._queues)

    def send(self) -> None:
        """Say it in the stub's place: Triton goes on, and sees that the stub does not live.

        Raises:
            BlockingIOError: Triton is just looking.
        """
        queue = self._queues[1]
        size, buffer, head, tail = STATE.unpack_from(self._memory, queue + STATE_AT)
        libc, view = ctypes.CDLL(None), ctypes.c_char.from_buffer(self._memory, queue)
        empty, filled, mutex = (ctypes.c_void_p(ctypes.addressof(view) + at) for at in (0, FILLED_AT, MUTEX_AT))
        if libc.sem_trywait(empty):
            raise BlockingIOError("no place is empty")
        if libc.pthread_mutex_trylock(mutex):
            libc.sem_post(empty)
            raise BlockingIOError("the queue is held")
        QUEUE.pack_into(self._memory, buffer + OWNER_BYTES + head * QUEUE.size, 0)
        STATE.pack_into(self._memory, queue + STATE_AT, size, buffer, (head + 1) % size, tail)
        libc.pthread_mutex_unlock(mutex)
        libc.sem_post(filled)


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
