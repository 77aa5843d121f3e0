"""What a guide costs, tried out where it can harm nobody: a few kB may be compiled for minutes, into gigabytes.

llguidance's own limits do not count the building of expressions. Each guide is compiled in a process forked for it,
whose time and memory the kernel bounds; one that ends within them is compiled again where tokens are decoded.
"""

import os
import resource
import signal
import subprocess
import threading
import time
import weakref
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from attendant.errors import AttendantError, InputError, LostError
from attendant.sampling_params import Structure
from serving.engine.sampling.guide_grammar import byte_vocabulary, compile_guide
from serving.processes import connection_of, process_fields, receive, send, start_python

MOST_S = 0.5
"""Of a processor, to compile a guide."""
MOST_BYTES = 64 << 20
"""That a compiled guide may take."""
MOST_ASLEEP_S = 0.5
"""For which it may wait for something: compiling never does."""
LONGEST_S = 20.0
"""By the clock, of a machine that is busy."""
ANSWER_S = LONGEST_S + 1.0


class GuideTrial:
    """Tries guides out, in a process that is started for the first; from any thread."""

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._end: weakref.finalize[Any, Any] | None = None
        self._lock = threading.Lock()

    def require_cheap(self, guide: Structure) -> None:
        """Refuse a guide that takes too much to compile.

        Raises:
            InputError: it does.
            LostError: the process that tries it out ended or stood still, twice.
        """
        with self._lock:
            for _ in range(2):
                if (is_cheap := self._try(guide)) is not None:
                    break
        if is_cheap is None:
            raise LostError("a process that tries guides out", "one that ends or stands still", "send it again")
        if not is_cheap:
            most = f"{MOST_S:g} s and {MOST_BYTES >> 20} MiB"
            raise InputError(f"a guide that is compiled within {most}", "one that takes more", "simplify the guide")

    def _try(self, guide: Structure) -> bool | None:
        """Whether it is cheap; None where nobody says so, and the next guide has another process."""
        try:
            if self._connection is None:
                process, self._connection = start_python(__name__, serve_trials.__name__)
                self._end = weakref.finalize(self, _end, process, self._connection)
            send(self._connection, guide)
            if self._connection.poll(ANSWER_S):
                return bool(receive(self._connection))
        except (EOFError, OSError):
            pass
        self._connection = None
        if self._end is not None:
            self._end()
        return None


def _end(process: subprocess.Popen[bytes], connection: Connection) -> None:
    connection.close()
    process.kill()
    process.wait()


def serve_trials(descriptor: int) -> None:
    """Say of each guide that comes whether it is cheap, until the other end is closed."""
    connection = connection_of(descriptor)
    vocabulary = byte_vocabulary()
    with suppress(EOFError, OSError):
        while True:
            guide = receive(connection)
            if not (child := os.fork()):
                _bound_this_process()
                with suppress(AttendantError):  # which compiling says again
                    compile_guide(vocabulary, guide).compute_bitmask()
                os._exit(0)
            send(connection, _ends_well(child))


def _ends_well(child: int) -> bool:
    # A panic of llguidance whose backtrace finds no memory waits for ever, and uses no time that could end it.
    pause_s, asleep_s = 0.001, 0.0
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        time.sleep(pause_s)
        asleep_s = asleep_s + pause_s if process_fields(child)[0] == "S" else 0.0
        pause_s = min(2 * pause_s, 0.02)
        if asleep_s > MOST_ASLEEP_S:
            os.kill(child, signal.SIGKILL)
    return ended[1] == 0


def _bound_this_process() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what fails here says so at length
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MOST_BYTES, taken + MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.setitimer(signal.ITIMER_PROF, MOST_S)  # whose signals end it
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
