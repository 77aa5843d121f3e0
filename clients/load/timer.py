"""Calls at exact times: an event loop of asyncio alone rounds its waits up to whole milliseconds.

Source: timerfd_create(2); CPython's selectors.EpollSelector.select.
"""

import asyncio
import ctypes
import os
import sys
from collections.abc import Callable

_CLOCK_MONOTONIC, _ABSOLUTE = 1, 1  # the clock of the event loop; TFD_TIMER_ABSTIME
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC if sys.platform == "linux" else 0
_SMALLEST_NS = 1  # 0 would disarm it


class _Times(ctypes.Structure):
    _fields_ = (("every_s", ctypes.c_long), ("every_ns", ctypes.c_long), ("s", ctypes.c_long), ("ns", ctypes.c_long))


class Timer:
    """One call at a time, at a time of the running event loop's clock; close it in the end."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._callback: Callable[[], None] | None = None
        self._handle: asyncio.TimerHandle | None = None
        self._file = -1
        if sys.platform == "linux":
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._file = self._libc.timerfd_create(_CLOCK_MONOTONIC, _FLAGS)
        if self._file >= 0:
            self._loop.add_reader(self._file, self._rung)

    def at(self, when_s: float, callback: Callable[[], None]) -> None:
        """Call back at a time, or at once if it has passed; a time that was set before no longer counts."""
        self._callback = callback
        if self._file < 0:
            if self._handle is not None:
                self._handle.cancel()
            self._handle = self._loop.call_at(when_s, callback)
            return
        nanoseconds = max(_SMALLEST_NS, int(when_s * 1e9))
        times = _Times(0, 0, nanoseconds // 10**9, nanoseconds % 10**9)
        self._libc.timerfd_settime(self._file, _ABSOLUTE, ctypes.byref(times), None)

    async def until(self, when_s: float) -> None:
        """Wait until a time of the event loop's clock."""
        rung: asyncio.Future[None] = self._loop.create_future()
        self.at(when_s, lambda: None if rung.done() else rung.set_result(None))
        await rung

    def close(self) -> None:
        """Call nobody any more."""
        self._callback = None
        if self._handle is not None:
            self._handle.cancel()
        if self._file >= 0:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = -1

    def _rung(self) -> None:
        try:
            os.read(self._file, 8)
        except BlockingIOError:  # set anew between the ring and this call
            return
        if self._callback is not None:
            self._callback()
