"""Requests that Triton has given up behind its stub's back.

tritonserver gives a batch up where its stub has not said for a second that it lives, as the thread that does so every
0.3 s had no processor. The stub still has it, and does not hear of it: from then on both read each other's messages
out of step, and end in a segmentation fault, the server with all its models. The one trace is in the queue of messages
to the stub: while a batch is being answered it is empty, and what follows an answer lies there once it was given up.
So such a stub ends at once, and the model alone is loaded anew; and it says that it lives as it begins a batch, and
ends one.

Source: ``ModelInstanceState::ProcessRequests`` (python_be.cc), ``IPCControlShm`` (pb_utils.h) and ``MessageQueueShm``
(message_queue.h) of triton-inference-server/python_backend, r24.10.
"""

import mmap
import os
import struct
import sys
import threading
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

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
EXIT_STATUS = 75
SETTLING_S = 0.1
"""Which what another thread has begun to say may take."""
Execute = Callable[[Any, list[Any]], Any]


class MessagesToStub:
    """The queue of messages from Triton to this process, and the word for Triton that it lives."""

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


def find_messages(arguments: list[str], memory: Path = Path("/dev/shm")) -> MessagesToStub | None:  # noqa: S108  # nosec B108
    """The queue of the stub that was started by these arguments; None if it is none, or cannot be read.

    Args:
        arguments: of this process.
        memory: the folder of the regions.
    """
    if len(arguments) <= CONTROL or not arguments[0].endswith(STUB):
        return None
    try:
        return MessagesToStub(memory / arguments[REGION], int(arguments[CONTROL]))
    except (ValueError, OSError, struct.error) as error:
        sys.stderr.write(f"requests that Triton gives up are not seen: {error}\n")
        return None


def ends_if_given_up(execute: Execute) -> Execute:
    """End the process where Triton has given up what it is to execute, before and behind that."""

    @wraps(execute)
    def guarded(body: Any, requests: list[Any]) -> Any:
        _end_if_given_up()
        responses = execute(body, requests)
        _end_if_given_up()
        return responses

    return guarded


def stay_if_it_ends() -> None:
    """Hold another thread that would speak to Triton where this process is about to end.

    Who ends while it holds a lock in the shared memory ends the server as well.
    """
    while _ENDING.is_set():
        time.sleep(1.0)


def _end_if_given_up() -> None:
    if _MESSAGES is None:
        return
    _MESSAGES.say_alive()
    if not _MESSAGES.is_empty:
        _ENDING.set()
        sys.stderr.write("Triton has given up a request that this process still has, as it stood still: it ends\n")
        sys.stderr.flush()
        time.sleep(SETTLING_S)
        os._exit(EXIT_STATUS)


_ENDING = threading.Event()
_MESSAGES = find_messages(Path("/proc/self/cmdline").read_text(errors="replace").split("\0"))  # as it is loaded
