"""A gateway as a sidecar, in a thread of another process: `attendant serve` runs it next to Triton.

If it ends by itself, the main thread is interrupted, as by Ctrl-C.
"""

import asyncio
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from attendant.errors import ConfigError, ServerError
from serving.gateway.acceptor import BACKLOG
from serving.gateway.server import server_for
from serving.gateway.settings import GatewaySettings

START_S = 30.0


class GatewaySidecar:
    """A gateway that serves from :meth:`start` on.

    Attributes:
        url: its address.
    """

    def __init__(self, settings: GatewaySettings, listening: socket.socket, url: str) -> None:
        self.url, self._socket = url, listening
        self._server = server_for(settings)
        self._thread = threading.Thread(target=self._work, name="gateway", daemon=True)
        self._leaving, self._ended = threading.Event(), threading.Event()

    @property
    def has_ended(self) -> bool:
        """Whether it served, and does no more."""
        return self._ended.is_set()

    def start(self) -> None:
        """Serve from now on. Again is no harm."""
        if self._thread.ident is None:
            self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Let open answers finish."""
        self._leaving.set()
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _work(self) -> None:
        try:
            asyncio.run(self._server.serve(sockets=[self._socket]))
        finally:
            self._ended.set()
            if not self._leaving.is_set():
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


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
        ServerError: it ended before the block did.
    """
    scheme = "https" if settings.listen.is_on else "http"
    with _bind(settings) as listening:
        sidecar = GatewaySidecar(settings, listening, f"{scheme}://{host}:{settings.port}")
        try:
            yield sidecar
        except KeyboardInterrupt:
            if sidecar.has_ended:
                raise ServerError("a running gateway", "it ended", "look at its log above") from None
            raise
        finally:
            sidecar.stop(settings.drain_timeout_s + START_S)


def _bind(settings: GatewaySettings) -> socket.socket:
    try:
        return socket.create_server((settings.host, settings.port), backlog=BACKLOG)
    except OSError as error:
        found = f"port {settings.port}: {error.strerror}"
        remedy = "stop the program that has it, or choose another with --gateway-port"
        raise ConfigError(f"a port for the gateway to listen on at {settings.host}", found, remedy) from error
