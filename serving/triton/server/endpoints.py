"""The addresses at which a server answers."""

from dataclasses import dataclass

EVERY_INTERFACE = "0.0.0.0"  # noqa: S104  recognised, never a default # nosec B104
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoints:
    """Where a client of this machine finds the server, each as ``host:port``; ``http`` is empty where it is off."""

    http: str
    grpc: str
    metrics: str


def endpoints_at(address: str, http_port: int, grpc_port: int, metrics_port: int) -> Endpoints:
    """Give the endpoints of a server on an address; one on every interface is asked by loopback."""
    host = LOOPBACK if address == EVERY_INTERFACE else address
    http = f"{host}:{http_port}" if http_port else ""
    return Endpoints(http=http, grpc=f"{host}:{grpc_port}", metrics=f"{host}:{metrics_port}")
