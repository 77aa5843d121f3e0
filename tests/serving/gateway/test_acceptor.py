"""Floods of connections before a real gateway that may open few descriptors: it answers, and logs little."""

import asyncio
import resource
import signal
import socket
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from serving.gateway.acceptor import READ_AT_ONCE, Acceptor
from serving.triton.server.ports import free_ports
from tests.authority import Authority
from tests.end_to_end.asking import PATIENCE_S

HERE = "127.0.0.1"
FLOOD = 1000
UPLOAD = (
    b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
)


@pytest.fixture(params=["plain", "TLS"])
def secured(request, tmp_path):
    """The flags of a gateway, and how a client makes sure that it is the one."""
    if request.param == "plain":
        return [], None
    authority = Authority(tmp_path)
    issued = authority.issue(HERE)
    context = ssl.create_default_context(cafile=str(authority.ca))
    return ["--listen-cert", str(issued.cert), "--listen-key", str(issued.key)], context


class Running:
    """A gateway in front of nobody, in a process of its own."""

    def __init__(self, process, port, context, log):
        self.process, self.port, self._context, self._log = process, port, context, log

    @property
    def lines(self):
        return self._log.read_text().splitlines()

    @property
    def descriptors(self):
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def is_alive(self):
        scheme = "http" if self._context is None else "https"
        verify = True if self._context is None else self._context
        try:
            return httpx.get(f"{scheme}://{HERE}:{self.port}/livez", verify=verify, timeout=5.0).status_code == 200
        except httpx.HTTPError:
            return False

    def connect(self, data=b""):
        connection = socket.create_connection((HERE, self.port), timeout=PATIENCE_S)
        if data and self._context is not None:
            connection = self._context.wrap_socket(connection, server_hostname=HERE)
        connection.sendall(data)
        return connection


@contextmanager
def started(tmp_path, soft, hard, secured=((), None), drain_s="1"):
    port, nobody = free_ports(2)
    words = [sys.executable, "-m", "attendant", "gateway", "--server", f"{HERE}:{nobody}", "--port", str(port)]
    words += ["--probe-s", "3600", "--drain-timeout-s", drain_s, *secured[0]]
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(words, stdout=stderr, stderr=stderr)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (soft, hard))
    running = Running(process, port, secured[1], log)
    try:
        ends_s = time.monotonic() + PATIENCE_S
        while not running.is_alive():
            assert process.poll() is None and time.monotonic() < ends_s, running.lines
            time.sleep(0.1)
        yield running
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def floods():
    """Room for the connections of this process."""
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with ExitStack() as stack:
        yield stack
    resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))


@pytest.mark.planted
def test_a_burst_of_silent_connections_leaves_descriptors_and_others_are_answered(tmp_path, secured, floods):
    with started(tmp_path, 256, 256, secured) as gateway:
        most = 0
        for number in range(FLOOD):
            connection = floods.enter_context(socket.socket())
            connection.setblocking(False)
            connection.connect_ex((HERE, gateway.port))
            if number % 50 == 0:
                most = max(most, gateway.descriptors)
        for _ in range(10):
            assert gateway.is_alive()
            most = max(most, gateway.descriptors)
        assert most <= 256 - 60, "a reserve is left"
        floods.close()
        assert gateway.is_alive()
        assert len(gateway.lines) < 50, gateway.lines[-3:]


def test_a_process_without_a_descriptor_left_says_so_once_a_second_and_goes_on(tmp_path, floods):
    with started(tmp_path, 256, 256) as gateway:
        resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, (3, 256))  # whatever it closes meanwhile
        waiting = [floods.enter_context(gateway.connect()) for _ in range(20)]
        began_s = time.monotonic()
        while len(said := [line for line in gateway.lines if "no connection can be accepted" in line]) < 2:
            assert time.monotonic() - began_s < PATIENCE_S
            time.sleep(0.1)
        assert time.monotonic() - began_s > 0.9 and len(said) <= time.monotonic() - began_s + 2
        assert not any("Traceback" in line for line in gateway.lines)
        resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, (256, 256))
        assert gateway.is_alive() and len(waiting) == 20


@pytest.mark.planted
@pytest.mark.parametrize("rest", [b"no number\r\n", b"1\r\na\r\n" * 5000], ids=["garbage", "pieces"])
def test_a_body_that_is_none_behind_an_early_answer_ends_its_connection_in_silence(tmp_path, rest):
    with started(tmp_path, 256, 256) as gateway:
        upload = b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        with gateway.connect(upload) as connection:
            assert connection.recv(4096).startswith(b"HTTP/1.1 404 ")
            with suppress(ConnectionError):
                connection.sendall(rest)
                while connection.recv(4096):
                    pass
        assert gateway.is_alive()
        assert not any("Traceback" in line for line in gateway.lines), gateway.lines[-1]


def test_of_one_connection_little_is_decrypted_in_a_turn(tmp_path):
    authority, sizes, sent = Authority(tmp_path), [], 100_000
    issued = authority.issue(HERE)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(issued.cert, issued.key)

    class Reader(asyncio.Protocol):
        waits, waits_since_s, transport = True, 0.0, None

        def data_received(self, data):
            sizes.append(len(data))

    async def send():
        listening = socket.create_server((HERE, 0))
        acceptor = Acceptor([listening], Reader, context, set())
        trusting = ssl.create_default_context(cafile=str(authority.ca))
        _, writer = await asyncio.open_connection(*listening.getsockname(), ssl=trusting)
        writer.write(b"a" * sent)
        while sum(sizes) < sent:
            await asyncio.sleep(0.01)
        writer.close()
        acceptor.close()

    asyncio.run(asyncio.wait_for(send(), PATIENCE_S))
    assert max(sizes) <= (1 << 14) + READ_AT_ONCE, "a record is decrypted as a whole"


def test_the_soft_limit_is_raised_to_the_hard_one(tmp_path):
    with started(tmp_path, 128, 2000) as gateway:
        assert resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE) == (2000, 2000)


@pytest.mark.planted
def test_uploads_that_outlast_the_drain_are_refused_in_words_and_leave_no_traceback(tmp_path, secured, floods):
    with started(tmp_path, 256, 256, secured, drain_s="0.5") as gateway:
        uploads = [floods.enter_context(gateway.connect(UPLOAD)) for _ in range(5)]
        time.sleep(0.5)
        gateway.process.send_signal(signal.SIGTERM)
        for upload in uploads:
            assert upload.recv(4096).startswith(b"HTTP/1.1 503 ")
        assert gateway.process.wait(PATIENCE_S) == 0
        assert not any("Traceback" in line for line in gateway.lines), gateway.lines[-1]
