"""A gateway in a thread of a process that does something else: `python -m serving up` runs it beside Triton.

If it ends by itself, the main thread is interrupted, as by Ctrl-C.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from models.errors import ConfigError, ServerError
from serving.gateway.running import server_for
from serving.gateway.settings import GatewaySettings

START_S = 30.0


@contextmanager
def gateway_beside(settings: GatewaySettings, host: str) -> Iterator[str]:
    """Serve while the block lasts, then let open answers finish; to be entered by the main thread.

    Args:
        settings: of the gateway.
        host: by which this machine reaches it.

    Yields:
        Its address.

    Raises:
        ConfigError: its port is taken.
        ServerError: it does not start, or it ended before the block did.
    """
    with _listening(settings) as listening:
        server, ended, leaving = server_for(settings), threading.Event(), threading.Event()

        def work() -> None:
            try:
                asyncio.run(server.serve(sockets=[listening]))
            finally:
                ended.set()
                if not leaving.is_set():
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        thread = threading.Thread(target=work, name="gateway", daemon=True)
        thread.start()
        try:
            yield f"http://{host}:{settings.port}"
        except KeyboardInterrupt:
            if ended.is_set():
                raise ServerError("a running gateway", "it ended", "look at what it said above") from None
            raise
        finally:
            leaving.set()
            server.should_exit = True
            thread.join(settings.drain_timeout_s + START_S)


def _listening(settings: GatewaySettings) -> socket.socket:
    try:
        listening = socket.create_server((settings.host, settings.port))
    except OSError as error:
        found = f"port {settings.port}: {error.strerror}"
        remedy = "stop the program that has it, or choose another with --gateway-port"
        raise ConfigError(f"a port for the gateway to listen on at {settings.host}", found, remedy) from error
    # asyncio does it only where the socket says that it is TCP; without it each answer waits 40 ms for the client.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
