"""Work that goes on beside what follows it."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

Result = TypeVar("Result")


def begin(work: Awaitable[Result]) -> asyncio.Future[Result]:
    """The result to come, of which nobody complains if nobody waits for it any more."""
    future = asyncio.ensure_future(work)
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    return future
