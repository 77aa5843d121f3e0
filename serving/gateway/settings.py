"""What a user may choose about the gateway; the only reader of the environment."""

import os
from dataclasses import dataclass, field

from attendant.errors import ConfigError
from clients.tls import Tls
from clients.triton_client import DEFAULT_SERVER
from serving.certificates import ListenTls
from serving.gateway.access_settings import AccessSettings
from serving.triton.server.settings import LAST_PORT

MIB_BYTES = 1 << 20
SHORTEST_S, LONGEST_S = 1e-3, 1e6
"""Of a request: its deadline is sent in whole milliseconds, in 32 bits."""
OTLP_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings(AccessSettings):
    """How the gateway serves.

    Attributes:
        tritons: gRPC addresses of servers, each ``host:port``.
        host: address to listen on; ``0.0.0.0`` opens the gateway to the network.
        port: to listen on; 0 takes a free one.
        timeout_s: longest silence of a server in the midst of an answer.
        first_timeout_s: longest wait for an answer's first token, which may stand in a line.
        request_timeout_s: longest time for a whole request.
        drain_timeout_s: how long open answers may take to finish once the gateway is stopped.
        probe_s: pause between two canaries of every model.
        body_bytes: largest body of a request.
        text_bytes: largest body of a request without an image.
        bodies_bytes: of all bodies together, of which a key, or an address without one, has three quarters at most; one
            that would be too much is refused.
        image_bytes: largest file of an image.
        image_pixels: most pixels of an image, and of all that are decoded at once.
        tensor_bytes: most bytes of a request's tensors, unpacked and in the model's types, and of all of one model at
            once; of all models twice as many.
        log_prompts: whether questions stand in the log.
        otlp: base URL to which traces go by OTLP over HTTP; empty sends none.
        tls: towards the Tritons.
        listen: TLS towards clients; the files are read again whenever they change.

    Raises:
        ConfigError: a value is out of its range.
    """

    tritons: tuple[str, ...] = (DEFAULT_SERVER,)
    host: str = "127.0.0.1"
    port: int = 8080
    timeout_s: float = 30.0
    first_timeout_s: float = 60.0
    request_timeout_s: float = 600.0
    drain_timeout_s: float = 30.0
    probe_s: float = 5.0
    body_bytes: int = 20 * MIB_BYTES
    text_bytes: int = 4 * MIB_BYTES
    bodies_bytes: int = 64 * MIB_BYTES
    image_bytes: int = 10 * MIB_BYTES
    image_pixels: int = 25_000_000
    tensor_bytes: int = 100 * MIB_BYTES  # a body of bytes, unpacked and as float32
    log_prompts: bool = False
    otlp: str = ""
    tls: Tls = field(default_factory=Tls)
    listen: ListenTls = field(default_factory=ListenTls)

    def __post_init__(self) -> None:
        wrong = [address for address in self.tritons if not address.rpartition(":")[2].isdigit()]
        if wrong or not self.tritons:
            raise ConfigError("host:port of one or more Tritons", str(wrong or "none"), "correct --server")
        if not 0 <= self.port <= LAST_PORT:
            raise ConfigError(f"a port from 0 to {LAST_PORT}", str(self.port), "choose another")
        if len(set(self.tritons)) < len(self.tritons):
            raise ConfigError("each Triton once", ", ".join(self.tritons), "correct --server")
        if not SHORTEST_S <= self.request_timeout_s <= LONGEST_S:
            expected = f"request_timeout_s from {SHORTEST_S:g} to {LONGEST_S:g}"
            raise ConfigError(expected, str(self.request_timeout_s), "correct request_timeout_s")
        above_zero = ("timeout_s", "first_timeout_s", "request_timeout_s", "drain_timeout_s", "probe_s")
        bounds = ("body_bytes", "text_bytes", "bodies_bytes", "image_bytes", "image_pixels", "tensor_bytes")
        for name in (*above_zero, *bounds):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} above 0", str(getattr(self, name)), f"correct {name}")


def otlp_endpoint() -> str:
    """Where traces go, as the environment says for every OpenTelemetry program; empty if it does not."""
    return os.environ.get(OTLP_ENDPOINT, "")  # noqa: TID251
