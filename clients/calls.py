"""Calls to a server that may be late, and are left to themselves then.

They are never cancelled or given a deadline: one in some hundred cancelled calls kills tritonserver 2.51 with a
segmentation fault (docs/log.md).
"""

from __future__ import annotations

import asyncio
from typing import Any

LATE_CALLS_S = 2.0  # what a call that was given up may still take when the connection closes


class Calls:
    """The calls of one client that are under way."""

    def __init__(self) -> None:
        self._running: set[asyncio.Future[Any]] = set()

    async def in_time(self, call: Any, timeout_s: float) -> Any:
        """The result of a call.

        Raises:
            TimeoutError: it did not come in time; the call goes on.
        """
        future = self.track(call)
        done, _ = await asyncio.wait({future}, timeout=timeout_s)
        if not done:
            raise TimeoutError
        return future.result()

    def track(self, call: Any) -> asyncio.Future[Any]:
        """Let a call run, whoever waits for it."""
        future: asyncio.Future[Any] = asyncio.ensure_future(call)
        self._running.add(future)
        future.add_done_callback(self._ended)
        return future

    async def last(self) -> None:
        """Wait for those that still run, for a while."""
        if self._running:
            await asyncio.wait(self._running, timeout=LATE_CALLS_S)

    def _ended(self, future: asyncio.Future[Any]) -> None:
        self._running.discard(future)
        if not future.cancelled():
            future.exception()  # seen, so that asyncio does not complain of a late call's error
