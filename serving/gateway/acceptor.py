"""Connections are accepted one in each turn of the event loop, and counted from then on, before any TLS handshake.

asyncio accepts all that wait in one turn, counts none, and logs a traceback for each that finds no descriptor left.
"""

import asyncio
import logging
import socket
import ssl
from asyncio import constants, sslproto
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from serving.descriptors import is_reserved
from serving.gateway import connections
from serving.gateway.connections import BoundedProtocol, most_connections

BACKLOG = 256
"""Connections that wait in the kernel. A client whose connection finds no room there tries again after a second."""
RETRY_S = 1.0
"""Pause after a connection that could not be accepted, and between two lines of the log that say so."""
READ_AT_ONCE = 1 << 12
"""Bytes of TLS that are taken from a connection in one turn of the event loop, instead of asyncio's 256 KiB: some 150
updates of its keys, of 20 µs each, which anybody may send and nothing else bounds."""
KEPT_UNREAD_KIB = 16
"""That are kept, instead of its 256, while the gateway reads nothing of it; they are then taken in one turn."""
UNSENT_KIB = 65
"""From which on a writer waits, instead of its 512. The socket's, which waits above 64, says when it goes on."""
_PAUSE_WRITING, _RESUME_WRITING = sslproto.SSLProtocol.pause_writing, sslproto.SSLProtocol.resume_writing
_LOG = logging.getLogger("attendant.gateway")


class Acceptor:
    """Accepts until it is closed; beyond the bound, the connection ends that waits longest for its client.

    Args:
        sockets: bound to an address; it listens on them, and closes them.
        create_protocol: of a new connection.
        context: for TLS, if there is to be any.
        connected: the connections whose handshake is over, as uvicorn keeps them.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        create_protocol: Callable[[], BoundedProtocol],
        context: ssl.SSLContext | None,
        connected: set[Any],
    ) -> None:
        self._sockets, self._create_protocol, self._connected = sockets, create_protocol, connected
        self._loop = asyncio.get_running_loop()
        self._tls: dict[str, Any] = {}
        if context is not None:
            sslproto.SSLProtocol.max_size = READ_AT_ONCE  # asyncio has no other way
            constants.FLOW_CONTROL_HIGH_WATER_SSL_READ = KEPT_UNREAD_KIB  # type: ignore[misc]
            constants.FLOW_CONTROL_HIGH_WATER_SSL_WRITE = UNSENT_KIB  # type: ignore[misc]
            sslproto.SSLProtocol._get_write_buffer_size = _unsent_bytes  # type: ignore[attr-defined]
            setattr(sslproto._SSLProtocolTransport, "close", _close_once)  # noqa: B010  (which mypy knows)
            setattr(sslproto.SSLProtocol, "pause_writing", _pause)  # noqa: B010
            setattr(sslproto.SSLProtocol, "resume_writing", _resume)  # noqa: B010
            bound_s = connections.HANDSHAKE_S
            self._tls = {
                "ssl": context,
                "ssl_handshake_timeout": bound_s,
                "ssl_shutdown_timeout": connections.UNTIMED_S,
            }
        self._arriving: dict[BoundedProtocol, asyncio.Task[None]] = {}
        self._pause: asyncio.TimerHandle | None = None
        for one in sockets:
            one.setblocking(False)
            one.listen(BACKLOG)
        self._resume()

    def close(self) -> None:
        """Take no more connections, and end those whose handshake is not over."""
        if self._pause is not None:
            self._pause.cancel()
        for one in self._sockets:
            self._loop.remove_reader(one)
            one.close()
        for task in self._arriving.values():
            task.cancel()

    def _resume(self) -> None:
        for one in self._sockets:
            self._loop.add_reader(one, self._accept, one)

    def _accept(self, listening: socket.socket) -> None:
        try:
            connection, _ = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:  # of the process or of the machine: there may be no descriptor left
            self._end_longest()
            _LOG.warning("no connection can be accepted: %s", error.strerror)
            for one in self._sockets:
                self._loop.remove_reader(one)
            self._pause = self._loop.call_later(RETRY_S, self._resume)
            return
        opened = len(self._connected | self._arriving.keys())
        if (opened >= most_connections() or is_reserved(connection.fileno())) and not self._end_longest():
            connection.close()
            return
        protocol = self._create_protocol()
        self._arriving[protocol] = self._loop.create_task(self._connect(connection, protocol))

    async def _connect(self, connection: socket.socket, protocol: BoundedProtocol) -> None:
        try:
            with suppress(OSError):  # the client is gone, or does not shake hands
                # Else each answer waits 40 ms for the client.
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await self._loop.connect_accepted_socket(lambda: protocol, connection, **self._tls)
        finally:
            self._arriving.pop(protocol, None)

    def _end_longest(self) -> bool:
        waiting = [one for one in self._connected | self._arriving.keys() if one.waits]
        if not waiting:
            return False
        longest = min(waiting, key=lambda one: one.waits_since_s)
        self._connected.discard(longest)
        task = self._arriving.pop(longest, None)
        if task is not None:
            task.cancel()
        if longest.transport is not None:
            longest.transport.abort()
        return True


def _unsent_bytes(tls: Any) -> int:
    # asyncio does not count what is encrypted and waits for the kernel, so that nobody would ever wait for a reader.
    waiting = tls._transport.get_write_buffer_size() if tls._transport else 0
    return int(tls._outgoing.pending + tls._write_buffer_size + waiting)


def _close_once(transport: Any) -> None:
    # asyncio's own forgets its connection the second time, and with it what is unsent.
    if not transport._closed:
        transport._closed = True
        transport._ssl_protocol._start_shutdown()


def _pause(tls: Any) -> None:
    # Of a client that does not read nothing is read: else each update of its keys is answered, and the answers kept.
    _PAUSE_WRITING(tls)
    tls._transport.pause_reading()


def _resume(tls: Any) -> None:
    if not tls._ssl_reading_paused:
        tls._transport.resume_reading()
    _RESUME_WRITING(tls)
