"""A process that works on what strangers sent, whose time, of a processor and by the clock, and memory are bounded."""

import json
import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from serving.processes import connection_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Of one piece of work.

    Attributes:
        processor_s: of a processor.
        longest_s: by the clock, of a machine that is busy.
        more_bytes: of memory, beyond what the process had as it began.
    """

    processor_s: float
    longest_s: float
    more_bytes: int


def answer_bounded(descriptor: int, answer: Callable[[bytes], bytes]) -> None:
    """Answer what comes, until the other end is closed, or something takes too much: that ends this process.

    Args:
        descriptor: of the socket of :func:`serving.processes.start_python`; the first that comes are the bounds.
        answer: from a request to what is sent back.
    """
    connection = connection_of(descriptor)
    with suppress(EOFError, OSError):
        bounds = Bounds(**json.loads(connection.recv_bytes()))
        _bound_memory(bounds.more_bytes)
        while True:
            request = connection.recv_bytes()
            signal.setitimer(signal.ITIMER_PROF, bounds.processor_s)  # whose signals, SIGPROF and SIGALRM, end it
            signal.setitimer(signal.ITIMER_REAL, bounds.longest_s)
            try:
                answered = answer(request)
            except MemoryError:
                os._exit(1)
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            connection.send_bytes(answered)


def _bound_memory(more_bytes: int) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what fails here says so at length
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + more_bytes, taken + more_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
