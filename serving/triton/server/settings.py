"""What a user may choose about the server."""

import ipaddress
from dataclasses import dataclass, field, replace
from pathlib import Path

from attendant.errors import ConfigError
from clients.admin_key import AdminKey
from serving.certificates import ListenTls
from serving.triton.server.admin_key import new_admin_key
from serving.triton.server.endpoints import LOOPBACK, Endpoints, endpoints_at

LAST_PORT = 65535
MIB_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerSettings:
    """How to serve one model repository.

    Attributes:
        repository: the folder that holds one folder a model.
        http_port: for REST, by which one request can end tritonserver 2.51; 0 for none.
        address: the IPv4 address to listen on; ``0.0.0.0`` opens it to the network, without a password.
        drain_timeout_s: how long running requests may take to finish once the server is stopped.
        models: the models to load; empty loads all of them.
        shm_default_bytes: the shared memory each model instance starts with; at least 1 MiB.
        shm_growth_bytes: how much is added when a tensor does not fit.
        verbose: write Triton's verbose log.
        otlp: base URL of a collector, to which every request's spans go by OTLP over HTTP; empty sends none.
        listen: TLS of the gRPC port; REST then answers on this machine alone, as Triton knows no TLS for it.
        admin_key: what a client must send to change the server; drawn anew if not given.
    """

    repository: Path
    http_port: int = 0
    grpc_port: int = 8001
    metrics_port: int = 8002
    address: str = LOOPBACK
    drain_timeout_s: int = 10
    models: tuple[str, ...] = ()
    shm_default_bytes: int = MIB_BYTES
    shm_growth_bytes: int = MIB_BYTES
    verbose: bool = False
    otlp: str = ""
    listen: ListenTls = field(default_factory=ListenTls)
    admin_key: AdminKey = field(default_factory=new_admin_key, repr=False)

    def __post_init__(self) -> None:
        try:
            ipaddress.IPv4Address(self.address)
        except ValueError as error:
            raise ConfigError("an IPv4 address", repr(self.address), f"use {LOOPBACK} for this machine only") from error
        ports = self.ports
        for name, port in ports.items():
            if not 1 <= port <= LAST_PORT:
                raise ConfigError(f"{name}_port from 1 to {LAST_PORT}", str(port), f"choose another --{name}-port")
        if len(set(ports.values())) < len(ports):
            found = ", ".join(f"{name}_port={port}" for name, port in ports.items())
            raise ConfigError("different ports", found, "give each its own")
        _check_models(self.models)
        _check_at_least("drain_timeout_s", self.drain_timeout_s, 1)
        _check_at_least("shm_default_bytes", self.shm_default_bytes, MIB_BYTES)
        _check_at_least("shm_growth_bytes", self.shm_growth_bytes, 1)

    @property
    def ports(self) -> dict[str, int]:
        """The ports in use, by the word that their option starts with."""
        ports = {"http": self.http_port, "grpc": self.grpc_port, "metrics": self.metrics_port}
        return {name: port for name, port in ports.items() if port or name != "http"}

    @property
    def addresses(self) -> dict[str, str]:
        """The address of each port."""
        return dict.fromkeys(self.ports, self.address) | ({"http": LOOPBACK} if self.listen.is_on else {})

    @property
    def endpoints(self) -> Endpoints:
        found = endpoints_at(self.address, self.http_port, self.grpc_port, self.metrics_port)
        on_loopback = self.listen.is_on and self.http_port
        return replace(found, http=f"{LOOPBACK}:{self.http_port}") if on_loopback else found


def _check_models(models: tuple[str, ...]) -> None:
    for name in models:
        if not name or "*" in name or "/" in name:
            raise ConfigError("names of models", repr(name), "name folders of the repository, or none to load all")


def _check_at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ConfigError(f"{name} of at least {least}", str(value), f"raise {name}")
