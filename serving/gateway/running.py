"""The gateway under uvicorn: in this process until it is told to stop, or in a thread beside a test."""

from __future__ import annotations

import asyncio
import socket

import uvicorn

from serving.gateway.app import create_app
from serving.gateway.settings import GatewaySettings


def server_for(settings: GatewaySettings) -> uvicorn.Server:
    """A server that is not started yet."""
    config = uvicorn.Config(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=round(settings.drain_timeout_s),
    )
    return uvicorn.Server(config)


def serve(settings: GatewaySettings, listening: socket.socket | None = None) -> None:
    """Serve until a signal comes.

    Args:
        settings: what its user chose.
        listening: a socket that is bound already, instead of one for the settings' address.
    """
    asyncio.run(server_for(settings).serve(sockets=[listening] if listening else None))
