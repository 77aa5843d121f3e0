"""SIGTERM and SIGHUP interrupt as Ctrl-C does, also where that is ignored, as a shell leaves it behind an ``&``.

As asyncio has it, the first cancels what runs in an event loop, and each further one is raised wherever that is.
"""

import asyncio
import signal
from collections.abc import Coroutine
from types import FrameType
from typing import Any

ENDS = (signal.SIGTERM, signal.SIGHUP)


def heed_signals() -> None:
    """Raise KeyboardInterrupt for each from now on, unless it is ignored, as nohup leaves SIGHUP."""
    for number in ENDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def ignore_signals() -> None:
    """Ignore them all: Python's end takes a second, in which one would end it with an error."""
    for number in (*ENDS, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def run_until_interrupted(work: Coroutine[Any, Any, object]) -> None:
    """Run it in an event loop.

    Raises:
        KeyboardInterrupt: it was interrupted.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # asyncio cancels by a handler of SIGINT alone, and sets it only where Python's own was.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)
        work = _while_ignored(work)
    asyncio.run(work)


async def _while_ignored(work: Coroutine[Any, Any, object]) -> None:
    cancel = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    for number in ENDS:
        if signal.getsignal(number) is _interrupt:
            signal.signal(number, cancel)
    await work


def _interrupt(number: int, frame: FrameType | None) -> None:
    handler = signal.getsignal(signal.SIGINT)  # asyncio's own, while it runs
    if not callable(handler):
        raise KeyboardInterrupt(number)
    handler(signal.SIGINT, frame)
