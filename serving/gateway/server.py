"""The gateway under uvicorn, until it is stopped."""

import asyncio
import signal
from contextlib import suppress

import uvicorn

from attendant.cli import FAILURE_STATUS
from serving.certificates import ReloadedContext
from serving.gateway.app import create_app
from serving.gateway.connections import BoundedProtocol
from serving.gateway.settings import GatewaySettings


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
    return uvicorn.Server(config)


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
