"""Whose connection is given up: not that of a client whom nobody heard while the gateway stood still."""

import asyncio
import gc
import math
import re
import socket
import ssl
import struct
import time
from contextlib import ExitStack
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from serving.certificates import ListenTls
from serving.gateway import connections
from serving.gateway.acceptor import Acceptor
from serving.gateway.connections import BoundedProtocol, taken_bytes
from serving.triton.server.ports import free_ports
from tests.authority import Authority
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


@pytest.fixture
def asked_for_much(request, tmp_path):
    """A gateway, and how to ask it for more than the kernel and its buffer keep, by ``ask(*header lines)``."""
    (nobody,) = free_ports(1)
    listen = ListenTls(**Authority(tmp_path).issue("127.0.0.1").listen) if request.param else ListenTls()
    with started(f"127.0.0.1:{nobody}", probe_s=3600.0, listen=listen) as running, ExitStack() as opened:
        running.listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2048)

        def ask(*headers):
            connection = opened.enter_context(socket.socket())
            connection.settimeout(PATIENCE_S)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            connection.connect(running.listening.getsockname())
            if listen.is_on:
                context = ssl.create_default_context(cafile=tmp_path / "ca.pem")
                connection = opened.enter_context(context.wrap_socket(connection, server_hostname="127.0.0.1"))
            lines = "GET /openapi.json HTTP/1.1", "Host: localhost", *headers, "", ""
            connection.sendall("\r\n".join(lines).encode())
            return connection

        yield running, ask


@pytest.mark.parametrize("asked_for_much", [False, True], indirect=True, ids=["http", "https"])
def test_of_connections_that_clients_reset_nothing_is_kept(asked_for_much):
    (_, ask), before = asked_for_much, alive()
    for _ in range(20):
        with ask() as connection:
            assert connection.recv(12) == b"HTTP/1.1 200"
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    until_s = time.monotonic() + PATIENCE_S
    while alive() > before:
        assert time.monotonic() < until_s
        time.sleep(0.1)


def alive():
    """How many connections the process holds, those among them that are over."""
    gc.collect()
    return sum(issubclass(type(one), BoundedProtocol) for one in gc.get_objects())  # a proxy may warn of its class


def read_slowly(connection, pause_s):
    """What comes of an answer, and how long it is."""
    taken = b""
    while b"\r\n\r\n" not in taken:
        taken += connection.recv(1024)
    whole = int(re.search(rb"content-length: (\d+)", taken)[1]) + taken.index(b"\r\n\r\n") + 4
    while len(taken) < whole and (more := connection.recv(2048)):
        taken += more
        time.sleep(pause_s)
    return taken, whole


@pytest.mark.parametrize("asked_for_much", [True], indirect=True, ids=["https"])
@pytest.mark.parametrize("header", ["Connection: close", "Connection: keep-alive"])
def test_who_reads_slowly_reads_the_whole_answer(asked_for_much, header, monkeypatch):
    for name in ("HANDSHAKE_S", "HEADERS_S", "KEEP_ALIVE_S"):
        monkeypatch.setattr(connections, name, 2.0)  # an answer takes longer
    _, ask = asked_for_much
    taken, whole = read_slowly(ask(header), 0.15)
    assert len(taken) == whole > 1 << 16


@pytest.mark.parametrize("asked_for_much", [False, True], indirect=True, ids=["http", "https"])
def test_of_whom_nothing_is_read_the_connection_is_closed(asked_for_much, monkeypatch):
    monkeypatch.setattr(connections, "UNREAD_S", 1.0)
    running, ask = asked_for_much
    ask("Connection: keep-alive").recv(1024)
    until_s = time.monotonic() + PATIENCE_S
    while running.server.server_state.connections:
        assert time.monotonic() < until_s
        time.sleep(0.1)


@pytest.mark.parametrize("asked_for_much", [False, True], indirect=True, ids=["http", "https"])
def test_a_connection_is_kept_from_when_its_answer_is_read(asked_for_much, monkeypatch):
    monkeypatch.setattr(connections, "KEEP_ALIVE_S", 2.0)
    _, ask = asked_for_much
    connection = ask("Connection: keep-alive")
    read_slowly(connection, 0.1)  # four seconds
    connection.sendall(REQUEST)
    assert connection.recv(12) == b"HTTP/1.1 200"


def connected_by_tls(running, authority):
    context = ssl.create_default_context(cafile=authority / "ca.pem")
    plain = socket.create_connection(running.listening.getsockname(), PATIENCE_S)
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


def test_over_tls_a_drain_waits_for_no_connection_that_is_closing(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(connections, "HEADERS_S", 1.0)
    (nobody,) = free_ports(1)
    listen = ListenTls(**Authority(tmp_path).issue("127.0.0.1").listen)
    with ExitStack() as opened:
        with started(f"127.0.0.1:{nobody}", probe_s=3600.0, listen=listen, drain_timeout_s=40.0) as running:
            connection = opened.enter_context(connected_by_tls(running, tmp_path))
            connection.sendall(REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            assert connection.recv(12) == b"HTTP/1.1 200"
            began_s = time.monotonic()
        assert time.monotonic() - began_s < 30.0
    assert "Traceback" not in caplog.text and "exception" not in caplog.text.lower()


def test_over_tls_a_drain_waits_for_no_client_that_asks_nothing(tmp_path):
    (nobody,) = free_ports(1)
    listen = ListenTls(**Authority(tmp_path).issue("127.0.0.1").listen)
    with ExitStack() as opened:
        with started(f"127.0.0.1:{nobody}", probe_s=3600.0, listen=listen, drain_timeout_s=40.0) as running:
            connection = opened.enter_context(connected_by_tls(running, tmp_path))
            connection.sendall(REQUEST)
            assert connection.recv(12) == b"HTTP/1.1 200"
            began_s = time.monotonic()
        assert time.monotonic() - began_s < connections.HEADERS_S


@pytest.mark.parametrize("bytes_unsent", [65_535, 65_536, 65_537, 66_560, 66_561])
def test_over_tls_a_writer_goes_on_whatever_waits(bytes_unsent, tmp_path):
    """asyncio's TLS has two writers, of which one tells the other when to go on."""
    issued = Authority(tmp_path).issue("127.0.0.1")
    server_context, client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    server_context.load_cert_chain(issued.cert, issued.key)
    client_context.load_verify_locations(tmp_path / "ca.pem")

    async def write():
        acceptor = Acceptor([], lambda: None, server_context, set())
        acceptor.close()  # it has told asyncio how to count
        written = asyncio.get_running_loop().create_future()
        server = await asyncio.start_server(
            lambda _, writer: written.set_result(writer), "127.0.0.1", 0, ssl=server_context
        )
        address = server.sockets[0].getsockname()
        reader, client = await asyncio.open_connection(*address, ssl=client_context, server_hostname="127.0.0.1")
        writer = await written
        client.transport.pause_reading()
        size, record = writer.transport.get_write_buffer_size, 22
        while not size():  # until the kernel takes no more
            writer.write(bytes(1000))
            await asyncio.sleep(0)
        while (left := bytes_unsent - size()) > record:
            writer.write(bytes(min(1000, left if left <= 1000 + record else 1000) - record))
        below = writer.transport._ssl_protocol._transport
        assert below.is_reading() == (bytes_unsent <= 1 << 16), "of whom does not read nothing is read"
        client.transport.resume_reading()
        drained = asyncio.ensure_future(writer.drain())
        reading = asyncio.ensure_future(reader.read(-1))
        await asyncio.wait_for(drained, PATIENCE_S)
        while not below.is_reading():
            await asyncio.sleep(0.01)
        reading.cancel()
        writer.transport.abort()
        client.transport.abort()
        server.close()

    asyncio.run(write())


@pytest.mark.parametrize(("reads", "burst", "pause_s"), [(True, 1 << 16, 0.1), (True, 6 << 20, 0.7), (False, 0, 0.1)])
def test_who_reads_slowly_or_in_bursts_is_not_taken_for_one_that_reads_nothing(reads, burst, pause_s, monkeypatch):
    """The kernel holds megabytes, and takes nothing from us until many of them are gone."""
    monkeypatch.setattr(connections, "UNREAD_S", 1.0)

    async def ask():
        written = asyncio.get_running_loop().create_future()
        server = await asyncio.start_server(lambda _, writer: written.set_result(writer), "127.0.0.1", 0)
        with socket.create_connection(server.sockets[0].getsockname(), timeout=PATIENCE_S) as client:
            writer = await written
            filling = asyncio.ensure_future(fill(writer))
            await asyncio.sleep(0.5)
            loop = asyncio.get_running_loop()
            ours = SimpleNamespace(transport=writer.transport, loop=loop, cycle=None, _taken=0)
            ours._is_idle = ours._is_last = False
            ours.waits_since_s = ours._read_s = loop.time()
            ours._watch = lambda due_s: BoundedProtocol._watch(ours, due_s)
            ours._watch(math.inf)
            until_s, taken = time.monotonic() + (5.0 if reads else PATIENCE_S), 0
            while time.monotonic() < until_s and not writer.transport.is_closing():
                end = taken + burst
                while taken < end and not writer.transport.is_closing():
                    taken += len(client.recv(1 << 16))
                    await asyncio.sleep(0)
                await asyncio.sleep(pause_s)
            assert writer.transport.is_closing() == (not reads)
            assert taken_bytes(writer.transport) >= taken or not reads

            ours._look.cancel()
            filling.cancel()
            writer.transport.abort()
        server.close()

    asyncio.run(ask())


async def fill(writer):
    """Write whatever is taken."""
    while True:
        writer.write(bytes(1 << 20))
        await writer.drain()
