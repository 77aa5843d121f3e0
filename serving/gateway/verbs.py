"""The verbs of the gateway and their flags."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from tyro.conf import OmitArgPrefixes, Positional

from clients.tls import Tls
from clients.triton_client import DEFAULT_SERVER
from serving.certificates import ListenTls
from serving.gateway.access_settings import AccessSettings

_OPEN, _NO_TLS, _LISTEN_PLAIN = AccessSettings(), Tls(), ListenTls()


def gateway(
    server: str = DEFAULT_SERVER,
    host: str = "127.0.0.1",
    port: int = 8080,
    timeout_s: float = 30.0,
    first_timeout_s: float = 60.0,
    request_timeout_s: float = 600.0,
    drain_timeout_s: float = 30.0,
    probe_s: float = 5.0,
    log_prompts: bool = False,
    access: OmitArgPrefixes[AccessSettings] = _OPEN,
    security: OmitArgPrefixes[Tls] = _NO_TLS,
    listen: OmitArgPrefixes[ListenTls] = _LISTEN_PLAIN,
) -> int:
    """Serve OpenAI's API, and our own, over HTTP in front of one Triton or several, until Ctrl-C.

    Args:
        server: host and port of a Triton's gRPC endpoint; several with commas between.
        host: address to listen on; 0.0.0.0 opens the gateway to the network.
        port: to listen on.
        timeout_s: longest silence in the midst of an answer, in seconds.
        first_timeout_s: longest wait for an answer's first token, which may wait in the queue, in seconds.
        request_timeout_s: longest time for a whole request, in seconds.
        drain_timeout_s: how long open answers may take to finish at the end, in seconds.
        probe_s: pause between two canaries of every model, in seconds.
        log_prompts: write prompts into the log.
        access: who may ask.
        security: TLS towards the Tritons.
        listen: TLS towards clients; a file that changes is read again, for new connections.
    """
    from serving.gateway.middleware.logs import log_to_stderr
    from serving.gateway.server import serve
    from serving.gateway.settings import GatewaySettings, otlp_endpoint

    settings = GatewaySettings(
        tritons=tuple(server.split(",")),
        host=host,
        port=port,
        timeout_s=timeout_s,
        first_timeout_s=first_timeout_s,
        request_timeout_s=request_timeout_s,
        drain_timeout_s=drain_timeout_s,
        probe_s=probe_s,
        log_prompts=log_prompts,
        otlp=otlp_endpoint(),
        tls=security,
        listen=listen,
        **asdict(access),
    )
    log_to_stderr()
    return serve(settings)


def keys(
    action: Positional[Literal["new", "revoke"]],
    name: str,
    file: Path = Path("keys.json"),
    requests: str = "",
    tokens: str = "",
) -> int:
    """Make an API key and print it once, or revoke one.

    Args:
        action: new or revoke.
        name: whose key it is.
        file: that holds the keys' hashes; a running gateway notices the change.
        requests: how many it may send, as 600/minute; any number if not given.
        tokens: how many it may use, as 1000000/day, of prompts and answers together; any number if not given.
    """
    from serving.gateway.middleware.keys import new_key, revoke_key

    if action == "revoke":
        revoke_key(file, name)
        return 0
    secret = new_key(file, name, requests, tokens)
    try:
        sys.stdout.write(secret + "\n")
        sys.stdout.flush()
    except OSError:  # a key that nobody was shown would stay for ever
        revoke_key(file, name)
        raise
    return 0
