import asyncio
import signal
import socket
import threading
import time
from dataclasses import replace
from math import inf

import httpx
import pytest

from attendant.errors import ConfigError, ServerError
from serving.gateway import sidecar as beside
from serving.gateway.server import server_for
from serving.gateway.settings import GatewaySettings
from serving.gateway.sidecar import run_sidecar
from serving.triton.server.ports import free_ports
from tests.end_to_end.asking import PATIENCE_S


@pytest.fixture
def settings():
    return GatewaySettings(port=free_ports(1)[0], drain_timeout_s=1.0, probe_s=60.0)


def page(url):
    ends = time.monotonic() + PATIENCE_S
    while True:
        try:
            return httpx.get(url, timeout=PATIENCE_S).text
        except httpx.ConnectError:
            assert time.monotonic() < ends, f"nothing answers at {url}"
            time.sleep(0.05)


def test_the_page_answers_while_the_block_lasts_and_not_after(settings):
    with run_sidecar(settings, settings.host) as gateway:
        gateway.start()
        gateway.start()
        assert "Ask a model" in page(gateway.url)
    with pytest.raises(httpx.ConnectError):
        httpx.get(gateway.url)


def test_one_that_was_never_started_leaves_at_once(settings):
    with run_sidecar(settings, settings.host) as gateway:
        assert not gateway.has_ended


def test_a_taken_port_is_refused_with_its_flag(settings):
    with (
        run_sidecar(settings, settings.host),
        pytest.raises(ConfigError, match="--gateway-port"),
        run_sidecar(settings, settings.host),
    ):
        pass


def test_a_gateway_that_ends_by_itself_ends_the_work_beside_it(settings, monkeypatch):
    def ending(settings):
        server = server_for(settings)
        server.should_exit = True
        return server

    async def watch(gateway):
        gateway.start()
        await gateway.watch(asyncio.sleep(PATIENCE_S))

    monkeypatch.setattr(beside, "server_for", ending)
    with pytest.raises(ServerError, match="a running gateway"), run_sidecar(settings, settings.host) as gateway:
        asyncio.run(watch(gateway))


def test_ctrl_c_is_passed_on(settings):
    with pytest.raises(KeyboardInterrupt), run_sidecar(settings, settings.host) as gateway:
        gateway.start()
        page(gateway.url)
        raise KeyboardInterrupt


@pytest.mark.planted
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_gateway_that_hangs_ends_the_work_beside_it_and_then_the_process(settings, monkeypatch):
    ends, gone = [], threading.Event()
    monkeypatch.setattr(beside, "MOST_MISSED", 2)
    monkeypatch.setattr(beside, "LATE_S", 0.1)
    monkeypatch.setattr(beside, "MOST_MISSED_AT_END", 2)
    monkeypatch.setattr(beside.signal, "setitimer", lambda *timer: ends.append(timer))

    async def work():
        await asyncio.sleep(PATIENCE_S)

    with run_sidecar(settings, settings.host) as gateway:
        gateway.start()
        page(gateway.url)
        monkeypatch.setattr(gateway, "_beat_once", gone.wait)  # in the gateway's loop, which it then holds
        with pytest.raises(ServerError, match="a gateway that answers"):
            asyncio.run(gateway.watch(work()))
    assert ends == [(signal.ITIMER_REAL, 0.1)]
    gone.set()
    gateway._thread.join(PATIENCE_S)  # whose socket is closed


def test_the_work_beside_one_that_answers_is_done(settings):
    async def work():
        await asyncio.sleep(0.1)
        return 3

    with run_sidecar(settings, settings.host) as gateway:
        gateway.start()
        page(gateway.url)
        assert asyncio.run(gateway.watch(work())) == 3


def test_a_second_signal_while_the_work_beside_it_ends_breaks_off_its_answers(settings):
    async def signalled_twice(gateway):
        ends = asyncio.Event()

        async def work():
            try:
                await asyncio.sleep(PATIENCE_S)
            finally:
                ends.set()
                await asyncio.sleep(PATIENCE_S)

        watching = asyncio.ensure_future(gateway.watch(work()))
        await asyncio.sleep(0.1)
        watching.cancel()
        await asyncio.wait_for(ends.wait(), PATIENCE_S)
        assert gateway.leaving_s < PATIENCE_S
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching

    with run_sidecar(settings, settings.host) as gateway:
        gateway.start()
        page(gateway.url)
        asyncio.run(signalled_twice(gateway))
        assert gateway.leaving_s == inf


def test_the_work_beside_it_goes_on_until_its_requests_are_answered(settings):
    ended = []

    async def work():
        try:
            await asyncio.sleep(4 * PATIENCE_S)
        finally:
            ended.append(time.monotonic())

    async def cancelled(gateway, times):
        watching = asyncio.ensure_future(gateway.watch(work()))
        await asyncio.sleep(0.1)
        client = socket.create_connection((settings.host, settings.port))
        head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        client.sendall(head + b"Content-Length: 2\r\n\r\n{")
        await asyncio.sleep(0.5)
        watching.cancel()
        await asyncio.sleep(0.5)
        assert not ended
        if times == 1:
            client.sendall(b"}")
            await asyncio.to_thread(client.recv, 1)
        else:
            watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching
        return client  # whose request is still half sent if that was cancelled twice

    for times in (1, 2):
        with run_sidecar(replace(settings, drain_timeout_s=2 * PATIENCE_S), settings.host) as gateway:
            gateway.start()
            page(gateway.url)
            kept = asyncio.run(cancelled(gateway, times))
            assert ended.pop() and not ended
            assert gateway.leaving_s == inf if times == 2 else gateway.leaving_s < PATIENCE_S
            left_s = time.monotonic()
        assert time.monotonic() - left_s < PATIENCE_S  # half of the time for open answers
        kept.close()
