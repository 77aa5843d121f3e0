"""The gateway under uvicorn, until it is stopped."""

import asyncio
import signal
import socket
from contextlib import suppress
from functools import partial

import uvicorn

from attendant.cli import FAILURE_STATUS
from serving.certificates import ReloadedContext
from serving.gateway import connections
from serving.gateway.app import create_app
from serving.gateway.connections import BoundedProtocol
from serving.gateway.settings import GatewaySettings


class _Server(uvicorn.Server):
    """Bounds what asyncio does of TLS: uvicorn has no option for it."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        if self.config.is_ssl:
            loop, bound_s = asyncio.get_running_loop(), connections.HANDSHAKE_S
            loop.create_server = partial(  # type: ignore[method-assign]
                loop.create_server, ssl_handshake_timeout=bound_s, ssl_shutdown_timeout=bound_s
            )
        await super().startup(sockets)


def server_for(settings: GatewaySettings) -> uvicorn.Server:
    """A server that is not started yet.

    Raises:
        ConfigError: a file of certificates cannot be read.
    """
    context = ReloadedContext(settings.listen).context if settings.listen.is_on else None
    config = uvicorn.Config(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        http=BoundedProtocol,
        log_config=None,
        access_log=False,
        server_header=False,
        ssl_context_factory=None if context is None else lambda *_: context,
        timeout_graceful_shutdown=settings.drain_timeout_s,  # type: ignore[arg-type]  # fractions work as well
    )
    return _Server(config)


def serve(settings: GatewaySettings) -> int:
    """Serve until SIGTERM, SIGHUP or Ctrl-C, and let open answers finish.

    Returns:
        The exit status.
    """
    server = server_for(settings)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # uvicorn raises what it was stopped by once it is done
    signal.signal(signal.SIGHUP, server.handle_exit)  # whoever closes the terminal lets open answers finish too
    with suppress(KeyboardInterrupt):
        asyncio.run(server.serve())
    return 0 if server.started else FAILURE_STATUS
