"""Connections bounded in number and in time: uvicorn itself waits for headers, and for readers, as long as it takes."""

import asyncio
import resource
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS_S = 10.0
"""Longest time from a connection, or from the last response on it, to the end of a request's headers."""
HANDSHAKE_S = 10.0
"""Longest time of a TLS handshake, and of a connection's end, both of which wait for the client."""
UNREAD_S = 30.0
"""Longest time in which a client reads nothing of what waits for it."""
MOST_CONNECTIONS = 1000
"""At once, and no more than half of the files that the process may open."""
MOST_HEADER_BYTES = 1 << 15
MOST_PIECES, LEAST_BYTES = 4096, 64
"""A body that comes in more pieces than that must have so many bytes in each on average: a million chunks are a million
parses."""
_LOOKS = 4


class _BoundedConnection(h11.Connection):
    _pieces = _bytes = 0

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._pieces = self._bytes = 0
        elif isinstance(event, h11.Data):
            self._pieces, self._bytes = self._pieces + 1, self._bytes + len(event.data)
            if self._pieces > MOST_PIECES and self._bytes < LEAST_BYTES * self._pieces:
                raise h11.RemoteProtocolError("a body in too many pieces")
        return event


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 on one connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = _BoundedConnection(h11.SERVER, MOST_HEADER_BYTES)
        self.waits_since_s = self.loop.time()
        self._look: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether it waits for its client to send a request, or the rest of one."""
        cycle = self.cycle
        return cycle is None or cycle.response_complete or (cycle.more_body and not cycle.response_started)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; where there are too many, the one that waits longest for its client ends."""
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > most_connections():
            others = [one for one in self.connections if isinstance(one, BoundedProtocol)]
            waiting = [one for one in others if one.waits and not one.transport.is_closing()]
            min(waiting, key=lambda one: one.waits_since_s, default=self).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        for timer in (self._look, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.waits_since_s = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait for the client to read, for a while."""
        super().pause_writing()
        self._watch_reading()

    def resume_writing(self) -> None:
        """Go on."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    def _watch(self) -> None:
        if self.flow.write_paused:
            self.waits_since_s = self.loop.time()
        idle = self.cycle is None or self.cycle.response_complete
        if idle and self.loop.time() - self.waits_since_s > HEADERS_S:
            self.transport.abort()  # also one that is closing, whose client does not read the last of it
        else:
            self._look = self.loop.call_later(HEADERS_S / _LOOKS, self._watch)

    def _watch_reading(self, unread: int | None = None) -> None:
        left = self.transport.get_write_buffer_size()
        if unread is not None and left >= unread:
            self.transport.abort()
        else:
            self._unread = self.loop.call_later(UNREAD_S, self._watch_reading, left)


def most_connections() -> int:
    """How many connections there may be."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if files == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, files // 2)
