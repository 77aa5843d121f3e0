"""Ports: which are free to take, and whether those that were chosen are."""

import socket
from contextlib import ExitStack

from attendant.errors import ConfigError
from serving.triton.server.endpoints import LOOPBACK, Endpoints
from serving.triton.server.settings import ServerSettings


def check_ports_free(settings: ServerSettings) -> None:
    """Bind each port of the server once and let it go.

    Raises:
        ConfigError: a port is taken, or this user may not listen there.
    """
    for name, port in settings.ports.items():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Triton does: TIME_WAIT is no obstacle
            try:
                probe.bind((settings.addresses[name], port))
            except OSError as error:
                found = f"port {port}: {error.strerror}"
                remedy = f"stop the program that has it, or choose another with --{name}-port"
                raise ConfigError(
                    f"a port for {name} to listen on at {settings.addresses[name]}", found, remedy
                ) from error


def all_listen(endpoints: Endpoints) -> bool:
    """Whether something listens at each of them: tritonserver answers by gRPC before it takes its other ports."""
    for address in filter(None, (endpoints.grpc, endpoints.http, endpoints.metrics)):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=1.0).close()
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface on which nothing listens now."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.create_server((LOOPBACK, 0))) for _ in range(count)]
        return [probe.getsockname()[1] for probe in probes]
