"""A Triton over a repository, for as long as a test needs it."""

from contextlib import contextmanager

from serving.triton.canary import canary_check
from serving.triton.server.ports import free_ports
from serving.triton.server.process import TritonServer
from serving.triton.server.settings import ServerSettings


@contextmanager
def started(repository, ports=None, **settings):
    """The server, whose models have answered their examples, on given ports or free ones."""
    http, grpc, metrics = ports or free_ports(3)
    settings = ServerSettings(repository=repository, http_port=http, grpc_port=grpc, metrics_port=metrics, **settings)
    names = {path.parent.name for path in repository.glob("*/config.pbtxt")}
    with TritonServer(settings) as server:
        server.wait_until_ready(canary_check(names, 60.0, settings.listen.own_client()), 240.0)
        yield server
