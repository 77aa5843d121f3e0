"""Gateways in threads of a test's own process, and how they are asked."""

import asyncio
import socket
import threading
from contextlib import contextmanager
from dataclasses import replace

from serving.gateway.server import server_for
from serving.gateway.settings import GatewaySettings


class Running:
    """A gateway that answers at ``url``."""

    def __init__(self, settings, listening):
        self.settings = settings
        self.server = server_for(settings)
        self.url = "{}://{}:{}".format("https" if settings.listen.is_on else "http", *listening.getsockname())
        self.listening = listening
        self.thread = threading.Thread(target=self._serve, name="gateway")

    def _serve(self):
        # As uvicorn's own run does, less the signals, which only a main thread may handle.
        asyncio.run(self.server.serve(sockets=[self.listening]))


@contextmanager
def started(*tritons, **choices):
    """A gateway in front of servers, by their gRPC addresses."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        settings = replace(GatewaySettings(tritons=tritons), **choices)
        running = Running(settings, listening)
        running.thread.start()
        try:
            while not running.server.started and running.thread.is_alive():
                running.thread.join(0.01)
            assert running.server.started
            yield running
        finally:
            running.server.should_exit = True
            running.thread.join(settings.drain_timeout_s + 60)
            assert not running.thread.is_alive()
