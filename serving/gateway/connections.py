"""Connections bounded in number and in time: uvicorn itself waits for headers, and for readers, as long as it takes."""

import asyncio
import fcntl
import math
import re
import socket
import struct
import termios
from contextlib import suppress
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from clients.calls import LATE_S
from serving.descriptors import descriptor_limit

HEADERS_S = 10.0
"""Longest time from a connection, or from the first byte of a further request on it, to the end of the headers."""
KEEP_ALIVE_S = 75.0
"""Longest time between two requests: a client that keeps connections for less sends on none that is being closed."""
HANDSHAKE_S = 10.0
"""Longest time of a TLS handshake, which waits for the client."""
UNREAD_S = 30.0
"""Longest time in which a client reads nothing of what waits for it."""
UNTIMED_S = 10**7
"""For a timer of asyncio's, in whose place a connection's own watch stands; it ends with its connection."""
MOST_CONNECTIONS = 1000
"""At once, and no more than half of the descriptors that the process may open."""
MOST_HEADER_BYTES = 1 << 15
MOST_PIECES, LEAST_BYTES = 4096, 64
"""A body that comes in more pieces than that must have so many bytes in each on average: a million chunks are a million
parses."""
_LOOKS = 4
_CLOSING_S = 0.25
"""Between two looks at a connection that is closing."""
_ABSOLUTE = re.compile(rb"(?i:https?)://([^/?#]*)(.*)", re.DOTALL)


class _BoundedConnection(h11.Connection):
    _pieces = _bytes = 0

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._pieces = self._bytes = 0
            if {b"content-length", b"transfer-encoding"} <= {name for name, _ in event.headers}:
                raise h11.RemoteProtocolError("a body of two lengths")  # RFC 9112, 6.3: a proxy may have read the other
            if absolute := _ABSOLUTE.fullmatch(event.target):
                event = _with_origin_form(event, *absolute.groups())
        elif isinstance(event, h11.Data):
            self._pieces, self._bytes = self._pieces + 1, self._bytes + len(event.data)
            if self._pieces > MOST_PIECES and self._bytes < LEAST_BYTES * self._pieces:
                raise h11.RemoteProtocolError("a body in too many pieces")
        return event


def _with_origin_form(request: h11.Request, host: bytes, path: bytes) -> h11.Request:
    # As though no proxy had been meant: RFC 9112, 3.2.2, whose server takes the target's host instead of the header's.
    target = path if path.startswith(b"/") else b"/" + path
    headers = [(name, host if name == b"host" else value) for name, value in request.headers]
    return h11.Request(method=request.method, target=target, headers=headers, http_version=request.http_version)


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 on one connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = _BoundedConnection(h11.SERVER, MOST_HEADER_BYTES)
        self.waits_since_s = self.loop.time()
        self._is_idle = self._is_last = False
        self._look: asyncio.TimerHandle | None = None
        self._taken, self._read_s = 0, self.waits_since_s

    @property
    def waits(self) -> bool:
        """Whether it waits for its client to send a request, or the rest of one."""
        cycle = self.cycle
        return cycle is None or cycle.response_complete or (cycle.more_body and not cycle.response_started)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read, perhaps the beginning of a further request."""
        if self._is_idle:
            self.waits_since_s, self._is_idle = self.loop.time(), False
        super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """Say that this is no request; where it was answered early, only the connection's end is left to say so."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.waits_since_s = self.loop.time()
        self._is_idle = not self.conn.trailing_data[0]
        super().on_response_complete()
        # It counts from when an answer is written, and not from when it is read; where a client resets its connection,
        # it goes on, and with it all that the connection held.
        self._unset_keepalive_if_required()

    def shutdown(self) -> None:
        """End as soon as what was asked is answered."""
        super().shutdown()
        self._is_last = True
        if self._look is not None:
            self._look.cancel()
        self._look = self.loop.call_later(_CLOSING_S, self._watch)

    def _watch(self, due_s: float = math.inf) -> None:
        now_s, closes = self.loop.time(), self.transport.is_closing()
        stood_still = now_s - due_s > LATE_S  # this process: nobody was there to hear
        unsent = self.transport.get_write_buffer_size()
        taken = taken_bytes(self.transport) if unsent else 0
        if not unsent or taken > self._taken or stood_still:
            self._read_s = now_s
        if unsent or self._taken or stood_still:  # it was being read a moment ago
            self.waits_since_s = now_s
        self._taken = taken
        idle = closes or self.cycle is None or self.cycle.response_complete
        longest_s = KEEP_ALIVE_S if self._is_idle and not closes else HEADERS_S
        late = idle and now_s - self.waits_since_s > longest_s
        # An end by TLS waits for the client's, which many never send. A drain waits no longer than until all is theirs.
        is_over = self._is_last and closes and not unsent and _is_taken(self.transport)
        if now_s - self._read_s > UNREAD_S or (late and closes) or is_over:
            self.transport.abort()
            return
        if late:
            self.waits_since_s = now_s
            self.transport.close()
        pause_s = _CLOSING_S if closes else min(HEADERS_S, UNREAD_S) / _LOOKS
        self._look = self.loop.call_later(pause_s, self._watch, now_s + pause_s)


def taken_bytes(transport: asyncio.Transport) -> int:
    """How much its client's kernel has taken so far; where the system does not say, less the more is left here.

    Source: Linux, ``tcp_info.tcpi_bytes_acked`` of ``include/uapi/linux/tcp.h``. What is left says less: a client that
    reads in bursts leaves as much as before, once what it has read was written anew.
    """
    with suppress(OSError, AttributeError, ValueError, struct.error):  # of a connection that has just been closed
        found = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 128)
        return int(struct.unpack_from("=Q", found, 120)[0])
    return -transport.get_write_buffer_size()


def _is_taken(transport: asyncio.Transport) -> bool:
    """Whether its client's kernel has all that this one was given; False where the system does not say."""
    with suppress(OSError, AttributeError, ValueError):
        found = fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4))
        return not any(found)
    return False


def most_connections() -> int:
    """How many connections there may be."""
    return min(MOST_CONNECTIONS, descriptor_limit() // 2)
