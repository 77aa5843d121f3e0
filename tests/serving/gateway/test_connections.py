"""Whose connection is given up: not that of a client whom nobody heard while the gateway stood still."""

import asyncio
import socket
import time
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from serving.gateway import connections
from serving.gateway.connections import BoundedProtocol, unread_bytes
from serving.triton.server.ports import free_ports
from tests.end_to_end.gateways import started

PATIENCE_S = 60.0
REQUEST = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def alone():
    """A gateway in front of nobody."""
    (nobody,) = free_ports(1)
    with started(f"127.0.0.1:{nobody}", probe_s=3600.0) as running:
        yield running


@pytest.mark.parametrize(("late_s", "begins"), [(0.0, b""), (20.0, b"HTTP/1.1 200")])
def test_a_connection_without_a_request_is_given_up_unless_the_gateway_stood_still(alone, late_s, begins):
    """Its timers may come before the bytes that wait in a socket."""
    parts, until_s = urlsplit(alone.url), time.monotonic() + PATIENCE_S
    with socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S) as connection:
        own = connection.getsockname()
        while not (found := [one for one in alone.server.server_state.connections if one.client == own]):
            assert time.monotonic() < until_s
            time.sleep(0.01)
        (protocol,) = found
        protocol.waits_since_s -= 20.0
        protocol.loop.call_soon_threadsafe(protocol._watch, protocol.loop.time() - late_s)
        try:
            time.sleep(0.5)
            connection.sendall(REQUEST)
            answer = connection.recv(100)
        except ConnectionError:
            answer = b""
        assert answer.startswith(begins) and bool(answer) == bool(begins)


@pytest.mark.parametrize("reads", [True, False])
def test_who_reads_slowly_is_not_taken_for_one_that_reads_nothing(reads, monkeypatch):
    """The kernel holds megabytes, and takes nothing from us until many of them are gone."""
    monkeypatch.setattr(connections, "UNREAD_S", 1.0)

    async def ask():
        written = asyncio.get_running_loop().create_future()
        server = await asyncio.start_server(lambda _, writer: written.set_result(writer), "127.0.0.1", 0)
        with socket.create_connection(server.sockets[0].getsockname(), timeout=PATIENCE_S) as client:
            writer = await written
            writer.write(bytes(32 << 20))
            await asyncio.sleep(0.5)
            held = writer.transport.get_write_buffer_size()
            ours = SimpleNamespace(transport=writer.transport, loop=asyncio.get_running_loop())
            ours._watch_reading = lambda unread: BoundedProtocol._watch_reading(ours, unread)
            ours._watch_reading(None)
            until_s, taken = time.monotonic() + (5.0 if reads else PATIENCE_S), 0
            while time.monotonic() < until_s and not writer.transport.is_closing():
                taken += len(client.recv(1 << 16)) if reads else 0
                await asyncio.sleep(0.1)
            assert writer.transport.is_closing() == (not reads)
            assert unread_bytes(writer.transport) < held + (8 << 20) - taken

            ours._unread.cancel()
            writer.transport.abort()
        server.close()

    asyncio.run(ask())
