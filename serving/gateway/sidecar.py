"""A gateway as a sidecar, in a thread of another process: `attendant serve` runs it next to Triton.

If it ends by itself, so does the work beside it. If it hangs, as a thread does for ever that Python starts where no
memory is left for it, all ends: nothing else can free its port.
"""

import asyncio
import math
import signal
import socket
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from attendant.errors import ConfigError, ServerError
from serving.gateway.acceptor import BACKLOG
from serving.gateway.server import server_for
from serving.gateway.settings import GatewaySettings

START_S = 30.0
BEAT_S, POLL_S = 0.5, 0.05
MOST_MISSED = 60
"""Turns of the main thread's event loop, a second apart, in which that of the gateway has none: it hangs."""
MOST_MISSED_AT_END = 8
LATE_S = 5.0
"""After which the process ends that a thread which hangs holds up: it may hold a lock that Python waits for."""
Result = TypeVar("Result")


class GatewaySidecar:
    """A gateway that serves from :meth:`start` on.

    Attributes:
        url: its address.
    """

    def __init__(self, settings: GatewaySettings, listening: socket.socket, url: str) -> None:
        self.url, self._socket = url, listening
        self._server = server_for(settings)
        self._thread = threading.Thread(target=self._work, name="gateway", daemon=True)
        self._drain_timeout_s, self._leaving_since_s = settings.drain_timeout_s, math.inf
        self._leaving, self._ended = threading.Event(), threading.Event()
        self._beats = 0

    @property
    def has_ended(self) -> bool:
        """Whether it served, and does no more, though nobody stopped it."""
        return self._ended.is_set() and not self._leaving.is_set()

    @property
    def leaving_s(self) -> float:
        """For how long it has taken no new requests."""
        return max(0.0, time.monotonic() - self._leaving_since_s)

    def start(self) -> None:
        """Serve from now on. Again is no harm."""
        if self._thread.ident is None:
            self._thread.start()

    async def watch(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do other work in this event loop, as long as the gateway neither ends by itself nor hangs.

        Where that is cancelled, the gateway finishes first, for half of its time: it may have parts of requests, or
        images, that it has not sent yet. Cancelled again, it has no time left.

        Raises:
            ServerError: it does.
        """
        both = working, failing = asyncio.ensure_future(work), asyncio.ensure_future(self._wait_until_it_fails())
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not failing.done():
                return working.result()
        except asyncio.CancelledError:
            self._leave()
            try:
                while self._thread.is_alive() and self.leaving_s < self._drain_timeout_s / 2:
                    await asyncio.sleep(POLL_S)
            except asyncio.CancelledError:
                self._hurry()
            raise
        finally:
            for one in both:
                one.cancel()
            try:
                await asyncio.gather(*both, return_exceptions=True)
            except asyncio.CancelledError:  # as Triton, which ends behind the gateway's half, was waited for
                self._hurry()
                raise
        raise failing.result()

    async def _wait_until_it_fails(self) -> ServerError:
        missed, beats = 0, self._beats
        while missed < MOST_MISSED:
            await asyncio.sleep(1.0)  # by turns of this loop, not by a clock: the whole process may be stopped
            if self.has_ended:
                return ServerError("a running gateway", "it ended", "look at its log above")
            missed = 0 if beats != self._beats or self._thread.ident is None else missed + 1
            beats = self._beats
        return ServerError("a gateway that answers", f"one that hangs for {MOST_MISSED} s", "start it again")

    def stop(self, timeout_s: float) -> None:
        """Let open answers finish."""
        self._leave()
        if self._thread.ident is None:
            return
        missed, beats = 0, self._beats
        for _ in range(math.ceil(timeout_s)):
            try:
                self._thread.join(1.0)
            except KeyboardInterrupt:  # who waits is impatient
                self._server.force_exit = True
            missed, beats = (missed + 1 if beats == self._beats else 0), self._beats
            if not self._thread.is_alive() or missed > MOST_MISSED_AT_END:
                break
        if self._thread.is_alive():
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, LATE_S)

    def _leave(self) -> None:
        self._leaving_since_s = min(self._leaving_since_s, time.monotonic())
        if not self._ended.is_set():
            self._leaving.set()
        self._server.should_exit = True

    def _hurry(self) -> None:
        self._leaving_since_s, self._server.force_exit = -math.inf, True

    async def _serve(self) -> None:
        beating = asyncio.ensure_future(self._beat())
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            beating.cancel()

    async def _beat(self) -> None:
        while True:
            self._beat_once()
            await asyncio.sleep(BEAT_S)

    def _beat_once(self) -> None:
        self._beats += 1

    def _work(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self._ended.set()


@contextmanager
def run_sidecar(settings: GatewaySettings, host: str) -> Iterator[GatewaySidecar]:
    """A gateway for as long as the block lasts; to be entered by the main thread.

    It takes its port at once, and serves from :meth:`GatewaySidecar.start` on: gRPC waits ever longer for a server that
    was not there at the first try.

    Args:
        settings: of the gateway.
        host: by which this machine reaches it.

    Raises:
        ConfigError: its port is taken.
    """
    scheme = "https" if settings.listen.is_on else "http"
    with _bind(settings) as listening:
        sidecar = GatewaySidecar(settings, listening, f"{scheme}://{host}:{settings.port}")
        try:
            yield sidecar
        finally:
            sidecar.stop(settings.drain_timeout_s + START_S)


def _bind(settings: GatewaySettings) -> socket.socket:
    try:
        return socket.create_server((settings.host, settings.port), backlog=BACKLOG)
    except OSError as error:
        found = f"port {settings.port}: {error.strerror}"
        remedy = "stop the program that has it, or choose another with --gateway-port"
        raise ConfigError(f"a port for the gateway to listen on at {settings.host}", found, remedy) from error
