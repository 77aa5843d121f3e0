"""Calls to a server that may exceed their time, and are left to themselves then.

They are never cancelled or given a deadline: one in some hundred cancelled calls kills tritonserver 2.51 with a
segmentation fault (docs/log.md).
"""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

from attendant.tensor_names import CANCEL, CANCEL_KEY, HEALTH, HEALTH_SEPARATOR
from clients.request_context import request_id

CHANNEL = [
    ("grpc.enable_http_proxy", 0),  # Triton is asked in one's own network, as is a server of this machine
    ("grpc.max_send_message_length", -1),
    # A server that comes back is found within a second, and not within two minutes, whatever another client met there.
    ("grpc.max_reconnect_backoff_ms", 1000),
    # So long a connection may take, instead of 20 s: the next address is to be asked within a request's time.
    ("grpc.min_reconnect_backoff_ms", 5000),
    ("grpc.use_local_subchannel_pool", 1),
]
"""Options of a connection."""
LATE_CALLS_S = 2.0  # what a call that was given up may still take when the connection closes
LATE_S = 0.5
"""How much later than its time this event loop may wake up, and still have heard what came."""


def ignore_events_of_closed_loops() -> None:
    """Log nothing of what gRPC hears for an event loop that has ended: each loop of a process hears for all of them."""
    logging.getLogger("asyncio").addFilter(lambda record: not _is_of_a_closed_loop(record))


def _is_of_a_closed_loop(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    is_closed = isinstance(error, RuntimeError) and str(error) == "Event loop is closed"
    return is_closed and "PollerCompletionQueue" in record.getMessage()


async def arrives(future: asyncio.Future[Any], timeout_s: float, news: asyncio.Future[Any] | None = None) -> bool:
    """Whether a result comes in time, and before some news.

    Where this event loop is late, or its process stood still, the time begins anew: nobody was there to hear.
    """
    awaited = {future} if news is None else {future, news}
    while True:
        began_s = time.monotonic()
        done, _ = await asyncio.wait(awaited, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if done or time.monotonic() - began_s < timeout_s + LATE_S:
            return future in done


class Calls:
    """The calls of one client that are in flight."""

    def __init__(self) -> None:
        self._running: set[asyncio.Future[Any]] = set()
        self._late: set[asyncio.Future[Any]] = set()

    @property
    def late(self) -> int:
        """How many were given up and still run."""
        return len(self._late)

    async def wait(self, call: Any, timeout_s: float) -> Any:
        """The result of a call.

        Raises:
            TimeoutError: it did not come in time; the call goes on.
        """
        future = self.track(call)
        try:
            await asyncio.wait({future}, timeout=timeout_s)
        finally:  # who waits may be cancelled too
            if not future.done():
                self._late.add(future)
        if not future.done():
            raise TimeoutError
        return future.result()

    async def arrives(self, call: Any, timeout_s: float, news: asyncio.Future[Any] | None = None) -> bool:
        """Whether the result of a call comes in time, see :func:`arrives`; the call goes on."""
        return await arrives(self.track(call), timeout_s, news)

    def track(self, call: Any) -> asyncio.Future[Any]:
        """Let a call run, whether its result is awaited or not."""

        def forget(future: asyncio.Future[Any]) -> None:
            self._running.discard(future)
            self._late.discard(future)
            if not future.cancelled():
                future.exception()  # seen, so that asyncio does not complain of a late call's error

        future: asyncio.Future[Any] = asyncio.ensure_future(call)
        self._running.add(future)
        future.add_done_callback(forget)
        return future

    def abandon(self, call: Any) -> None:
        """Let a call run whose result nobody awaits."""
        future = self.track(call)
        if not future.done():
            self._late.add(future)

    async def drain(self) -> None:
        """Wait for those that still run, for a while."""
        if self._running:
            await asyncio.wait(self._running, timeout=LATE_CALLS_S)


class RequestStream:
    """The responses to one request, as they come; use it in a running event loop.

    What is said of the request later goes in streams of their own: tritonserver 2.51 dies where it refuses one message
    of a stream, as a server does that is stopping, while it writes the answer to another (docs/log.md).

    Attributes:
        key: the secret that names the request in others about it.
    """

    def __init__(self, start: Callable[[AsyncIterator[dict[str, Any]]], Any], request: dict[str, Any]) -> None:
        """Send the request.

        Args:
            start: takes the requests of a stream, and returns an iterator over its responses.
            request: the keywords of tritonclient's ``async_stream_infer``.
        """
        self._start, self.key = start, secrets.token_urlsafe()  # an id may come twice
        self._parameters = request["parameters"] | {CANCEL_KEY: self.key}
        self._request = {**request, "request_id": request_id.get(), "parameters": self._parameters}
        self._over = asyncio.Event()
        self._responses = start(_one(self._request, self._over))
        self._next: asyncio.Future[Any] | None = None

    def next(self) -> asyncio.Future[Any]:
        """The next response and its error; None at the end of the stream."""
        self._next = asyncio.ensure_future(anext(self._responses, None))
        return self._next

    def complete(self) -> None:
        """Note that the request is answered: its stream ends."""
        self._over.set()

    def ask_health(self, keys: list[str]) -> Self:
        """The answer of the model to whether it knows the requests of these keys."""
        return self._say(HEALTH, HEALTH_SEPARATOR.join(keys))

    async def cancel(self) -> None:
        """Cancel the request unless it is answered, and read what still comes."""
        rest = [] if self._over.is_set() else [self._say(CANCEL, self.key).read()]
        await asyncio.gather(self.read(), *rest, return_exceptions=True)

    async def read(self) -> None:
        """Read what still comes."""
        self.complete()
        last = await self._next if self._next is not None else True
        while last is not None:
            last = await self.next()

    def _say(self, parameter: str, value: str) -> Self:
        return type(self)(self._start, self._request | {"parameters": self._parameters | {parameter: value}})


async def _one(request: dict[str, Any], over: asyncio.Event) -> AsyncIterator[dict[str, Any]]:
    yield request
    await over.wait()
