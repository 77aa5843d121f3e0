"""Standard input, output and error of a program that runs for long: no reader of theirs holds it up, or ends it."""

import io
import os
import select
import sys
import threading
from typing import BinaryIO, TextIO, cast


def open_standard_streams() -> None:
    """Give a program whose caller closed one of them the null device in its place, and any text to its output.

    Else what it opens next, a connection to a client, gets the number, and every line that is printed. Of a text, what
    a terminal's encoding lacks is printed by its number, as Python does on standard error alone.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number, inheritable=True)
                os.close(null)
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def never_wait_for_readers() -> None:
    """Drop from now on what standard output and error cannot take at once: of a pipe that nobody reads, a full disk."""
    sys.stdout, sys.stderr = _without_waiting(sys.stdout), _without_waiting(sys.stderr)


def _without_waiting(stream: TextIO) -> TextIO:
    stream.flush()
    writer = cast("BinaryIO", _DroppingWriter(stream.fileno()))
    return io.TextIOWrapper(writer, stream.encoding, errors="backslashreplace", line_buffering=True, write_through=True)


class _DroppingWriter(io.RawIOBase):
    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._lock = descriptor, threading.Lock()
        self._ready = select.poll()
        self._ready.register(descriptor, select.POLLOUT)

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        left = memoryview(cast("bytes", data)).cast("B")
        size = len(left)
        with self._lock:
            # A pipe that is ready takes so much at once.
            while left and any(events & select.POLLOUT for _, events in self._ready.poll(0)):
                try:
                    left = left[os.write(self._descriptor, left[: select.PIPE_BUF]) :]
                except OSError:  # its reader is gone, or its disk is full
                    break
        return size
