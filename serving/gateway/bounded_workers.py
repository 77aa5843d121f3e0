"""Processes that work on what strangers sent (bounded_process.py), and what becomes of those that take too much."""

import asyncio
import json
import os
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from multiprocessing.connection import Connection

from attendant.errors import LostError
from serving.gateway.bounded_process import Bounds
from serving.processes import process_of, start_python

ATTEMPTS = 2
"""At a process that somebody ends."""
MARGIN_S = 0.25
LOOK_S = 0.2
STOPPED_LOOKS = 3
"""At which a process is seen stopped, before another does its work."""
MOST_UNREAD_S = 2
"""How long a process, which has nothing else to do, may not read what it is sent."""
FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
"""Signals that end a process, and that no work causes."""


class TooMuchError(Exception):
    """The work took more of a processor, or of memory, than it may."""


class LateError(Exception):
    """The work took longer than it may, by the clock."""


class BoundedWorkers:
    """A few processes for one kind of work, each started when it is first needed."""

    def __init__(self, serve: Callable[[int], None], count: int, bounds: Bounds) -> None:
        """Start nothing yet.

        Args:
            serve: what a process calls, with the descriptor of its socket; it calls ``answer_bounded``.
            count: of processes.
            bounds: of one piece of work.
        """
        self._serve, self._bounds = serve, bounds
        # Each thread starts a process of its own, which ends with it, and talks with that one alone.
        self._threads = ThreadPoolExecutor(max_workers=count, thread_name_prefix=serve.__name__)
        self._own = threading.local()
        self._processes = set[subprocess.Popen[bytes]]()
        self._is_closed = False

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        """The answer to come, once a process is free.

        It raises:
            TooMuchError: it took too much.
            LateError: it took too long.
            LostError: somebody ends the processes, again and again.
        """
        return asyncio.wrap_future(self._threads.submit(self._exchange, request))

    def close(self) -> None:
        """End all processes; what is under way is lost."""
        self._is_closed = True
        for process in list(self._processes):
            process.kill()
            process.wait()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _exchange(self, request: bytes) -> bytes:
        for _ in range(ATTEMPTS):
            if self._is_closed:
                break
            has_begun = False
            try:
                self._connect().send_bytes(request)
                has_begun = True
                if self._is_answered():
                    answer: bytes = self._own.connection.recv_bytes(self._bounds.more_bytes)
                    return answer
            except (EOFError, OSError):  # none can be started, it is gone, stands still, or was ended as it answered
                pass
            except BaseException:  # no memory here, say: what is left of this answer must not be another's
                self._end()
                raise
            status = self._end()
            if not has_begun:  # no fault of this work
                continue
            if status == -signal.SIGALRM:
                raise LateError
            if -status not in FROM_OUTSIDE:
                raise TooMuchError
        raise LostError(f"a process for {self._serve.__name__}", f"{ATTEMPTS} that were ended", "ask again")

    def _is_answered(self) -> bool:
        # False where somebody has stopped the process: it is ended then, and the work is another's.
        process = process_of(self._own.process.pid)
        ends_s, looks = time.monotonic() + self._bounds.longest_s + MARGIN_S, 0
        while not self._own.connection.poll(LOOK_S):
            looks = looks + 1 if process.is_stopped else 0
            if looks >= STOPPED_LOOKS:
                return False
            if time.monotonic() > ends_s:
                self._end()
                raise LateError
        return True

    def _connect(self) -> Connection:
        if not hasattr(self._own, "connection"):
            self._own.process, self._own.connection = start_python(self._serve.__module__, self._serve.__name__)
            self._processes.add(self._own.process)
            with socket.socket(fileno=os.dup(self._own.connection.fileno())) as pair:  # a stopped process reads nothing
                pair.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", MOST_UNREAD_S, 0))
            self._own.connection.send_bytes(json.dumps(asdict(self._bounds)).encode())
        connection: Connection = self._own.connection
        return connection

    def _end(self) -> int:
        connection: Connection | None = self._own.__dict__.pop("connection", None)
        if connection is None:  # none was started
            return -signal.SIGKILL
        process: subprocess.Popen[bytes] = self._own.process
        connection.close()
        with suppress(subprocess.TimeoutExpired):  # one that goes by itself says why
            process.wait(MARGIN_S)
        process.kill()
        self._processes.discard(process)
        return process.wait()
