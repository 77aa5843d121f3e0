"""Server-sent events: deltas of an answer as they come, an error in the midst of one, and the end.

Source: WHATWG HTML, section 9.2; OpenAI ends a stream with ``data: [DONE]``.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Send

from attendant.errors import CancelledError, UnreachableError
from serving.gateway.errors import body_of

HEADERS_AFTER_S = 1.0
"""Longest wait for the first event: until then a failure still gets its own status."""
ALIVE_S = 4.0
"""Longest silence of a stream, as of one that waits in a model's queue: docs/failure-contract.md promises 5 s."""
UNREAD_BYTES = 1 << 20
"""Most of a stream that waits for a client who reads more slowly than the model writes; more ends it."""
DONE = b"data: [DONE]\n\n"
_EVENT = {"type": "object", "properties": {"data": {"type": "string"}}, "required": ["data"]}
EVENTS: dict[str, Any] = {"text/event-stream": {"itemSchema": _EVENT}}
"""OpenAPI's description of a stream, beside that of the whole answer."""
_ALIVE = b": waiting\n\n"
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


_LINE_ENDS = {"\u0085".encode(): b"\\u0085", "\u2028".encode(): b"\\u2028", "\u2029".encode(): b"\\u2029"}
"""That end no line of such a stream, and do for clients that read it by Python's ``splitlines``, as httpx does."""


def event(value: Any) -> bytes:
    """One event, whose data is JSON; NaN and infinity are null."""
    data = to_json(value, inf_nan_mode="null")
    for end, escaped in _LINE_ENDS.items():
        data = data.replace(end, escaped)
    return b"data: " + data + b"\n\n"


class EventStream(StreamingResponse):
    """A response that ends its work as soon as the client disconnects."""

    media_type = "text/event-stream"

    async def stream_response(self, send: Send) -> None:
        """Send what comes; whatever ends it, the events are closed."""
        async with aclosing(self.body_iterator):  # type: ignore[type-var]
            await super().stream_response(send)


async def event_stream(request: Request, events: AsyncGenerator[bytes, None]) -> EventStream:
    """A response made of events.

    Args:
        request: whose client may disconnect.
        events: as :func:`event` makes them; :data:`DONE` is added.

    Raises:
        Exception: what the first event raised, if it did so soon.
    """
    first: asyncio.Future[bytes | None] = asyncio.ensure_future(anext(events, None))
    leaving: asyncio.Future[Any] = asyncio.ensure_future(request.receive())
    waited: set[asyncio.Future[Any]] = {first, leaving}
    try:
        await asyncio.wait(waited, timeout=HEADERS_AFTER_S, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:  # the gateway stops
        leaving.cancel()
        await _close(events, first)
        raise
    gone = leaving.done()
    leaving.cancel()
    if gone or (first.done() and first.exception() is not None):
        await _close(events, first)
        if gone:
            first.cancelled() or first.exception()  # seen: nobody else will ask
            raise CancelledError("a client that waits", "it disconnected", "stay connected")
        first.result()
    return EventStream(_sent(events, first, request), headers=_HEADERS)


async def _sent(
    events: AsyncGenerator[bytes, None], first: asyncio.Future[bytes | None], request: Request
) -> AsyncGenerator[bytes, None]:
    # The server is read as fast as it answers, whatever the client does: only so does it keep nothing of it.
    outbox = _Outbox()
    reading = asyncio.ensure_future(_read(events, first, outbox, request))
    try:
        while (chunk := await outbox.next()) is not None:
            yield chunk
    finally:
        reading.cancel()
        await asyncio.wait({reading})


class _Outbox:
    """Events that wait for a client; those that come while others are sent leave together.

    Attributes:
        is_awaited: whether all before them was sent, and they leave as soon as the writer has its turn.
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self._changed = asyncio.Event()
        self._ended = False
        self.is_awaited = False

    @property
    def is_full(self) -> bool:
        return len(self._pending) > UNREAD_BYTES

    def put(self, event: bytes) -> None:
        self._pending += event
        self._changed.set()

    def end(self) -> None:
        self._ended = True
        self._changed.set()

    async def next(self) -> bytes | None:
        """What there is; a comment where it is long in coming, and None at the end."""
        if not self._pending and not self._ended:
            self.is_awaited = True
            try:
                async with asyncio.timeout(ALIVE_S):
                    await self._changed.wait()
            except TimeoutError:
                if not self._pending:
                    return _ALIVE
            finally:
                self.is_awaited = False
        self._changed.clear()
        chunk, self._pending = bytes(self._pending), bytearray()
        return chunk or None


async def _read(
    events: AsyncGenerator[bytes, None], first: asyncio.Future[bytes | None], outbox: _Outbox, request: Request
) -> None:
    def fail(error: Exception) -> None:
        body = body_of(error, request.url.path)[1]
        request.state.stream_error = body["error"]["code"]
        outbox.put(event(body))

    try:
        one = await first
        while one is not None:
            while outbox.is_full and outbox.is_awaited:
                await asyncio.sleep(0)
            if outbox.is_full:
                raise CancelledError("a client that reads its answer", f"{UNREAD_BYTES} bytes unread", "read faster")
            outbox.put(one)
            one = await anext(events, None)
    except Exception as error:
        fail(error)
    except asyncio.CancelledError:  # of its call, by gRPC: where the reading is ended, nobody reads what is put
        fail(UnreachableError("the rest of the answer", "no connection", "ask again"))
        raise
    finally:
        await _close(events, first)
        outbox.put(DONE)
        outbox.end()


async def _close(events: AsyncGenerator[bytes, None], first: asyncio.Future[bytes | None]) -> None:
    if not first.done():
        first.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await first
    await events.aclose()
