"""The gateway under uvicorn, until it is stopped."""

import asyncio
import signal
import socket
import ssl
from contextlib import suppress
from typing import Any

import uvicorn

from attendant.cli import FAILURE_STATUS
from attendant.standard_streams import never_wait_for_readers
from serving.certificates import ReloadedContext
from serving.descriptors import raise_descriptor_limit
from serving.gateway.acceptor import Acceptor
from serving.gateway.app import create_app
from serving.gateway.connections import BoundedProtocol
from serving.gateway.settings import GatewaySettings


class _Server(uvicorn.Server):
    """Accepts connections by an :class:`Acceptor`: uvicorn has no option for it."""

    _acceptor: Acceptor | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        loop = asyncio.get_running_loop()
        bind = loop.create_server

        async def listen(
            create_protocol: Any, *, ssl: ssl.SSLContext | None, backlog: int, **place: Any
        ) -> asyncio.Server:
            server = await bind(create_protocol, start_serving=False, **place)
            own = [one.dup() for one in server.sockets]
            self._acceptor = Acceptor(own, create_protocol, ssl, self.server_state.connections)
            return server

        loop.create_server = listen  # type: ignore[method-assign,assignment]
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, and let open answers finish."""
        if self._acceptor is not None:
            self._acceptor.close()
        await super().shutdown(sockets)


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
        proxy_headers=False,  # a client's own word of its address would be believed: owners take turns by it
        ssl_context_factory=None if context is None else lambda *_: context,
        timeout_graceful_shutdown=settings.drain_timeout_s,  # type: ignore[arg-type]  # fractions work as well
    )
    return _Server(config)


def serve(settings: GatewaySettings) -> int:
    """Serve until SIGTERM, SIGHUP or Ctrl-C, and let open answers finish.

    Returns:
        The exit status.
    """
    never_wait_for_readers()
    raise_descriptor_limit()
    server = server_for(settings)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # uvicorn raises what it was stopped by once it is done
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup leaves it
        signal.signal(signal.SIGHUP, server.handle_exit)  # whoever closes the terminal lets open answers finish too
    with suppress(KeyboardInterrupt):
        asyncio.run(server.serve())
    return 0 if server.started else FAILURE_STATUS
