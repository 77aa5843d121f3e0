"""A Triton over a repository, for as long as a test needs it."""

import asyncio
import threading
from contextlib import contextmanager, suppress

from serving.triton.canary import canary_check
from serving.triton.server.ports import free_ports
from serving.triton.server.process import TritonServer
from serving.triton.server.settings import ServerSettings
from serving.triton.server.stub_health import vouch_for_workers


@contextmanager
def started(repository, ports=None, **settings):
    """The server, whose models have answered their examples, on given ports or free ones."""
    http, grpc, metrics = ports or free_ports(3)
    settings = ServerSettings(repository=repository, http_port=http, grpc_port=grpc, metrics_port=metrics, **settings)
    names = {path.parent.name for path in repository.glob("*/config.pbtxt")}
    with TritonServer(settings) as server, _vouched(server):
        server.wait_until_ready(canary_check(names, 60.0, settings.listen.own_client()), 240.0)
        yield server


@contextmanager
def _vouched(server):
    # As `attendant serve` does: where others use the machine, a worker may have no processor for a second.
    loop = asyncio.new_event_loop()
    vouching = loop.create_task(vouch_for_workers(server.group))

    def vouch():
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(vouching)

    thread = threading.Thread(target=vouch)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(vouching.cancel)
        thread.join()
        loop.close()
