"""The command line of a tritonserver, for versions 2.51 (nvidia-pytriton 0.7.0) and newer."""

from collections.abc import Sequence
from pathlib import Path

from serving.certificates import ListenTls
from serving.triton.server.admin_key import restricted_flags
from serving.triton.server.installation import Installation
from serving.triton.server.life_signs import LOADERS
from serving.triton.server.settings import ServerSettings
from serving.triton.server.shared_memory import region_prefix
from serving.triton.server.workspace import backends_directory, plain_repository

KEEPALIVE = (
    "--grpc-keepalive-time=10000",
    "--grpc-keepalive-timeout=10000",
    "--grpc-keepalive-permit-without-calls=true",
    "--grpc-http2-max-pings-without-data=0",
)
"""A client that answers no ping for ten seconds has vanished: its connection is closed, which else stays for ever."""


def command_line(
    settings: ServerSettings,
    installation: Installation,
    workspace: Path,
    name: str,
    regions: str,
    models: Sequence[str],
) -> list[str]:
    """Give the program and its arguments.

    There is no response cache, whatever a model's configuration says: its entries are told apart by a model's name and
    the inputs, so that they would outlive the artefact that gave the answers.

    Args:
        settings: what the user chose.
        installation: what is started.
        workspace: the server's temporary folder.
        name: what the server calls itself, to whoever asks.
        regions: how the names of its shared memory begin.
        models: that are loaded at the start.
    """
    url = f"{settings.otlp.rstrip('/')}/v1/traces"
    traces = ("mode=opentelemetry", f"opentelemetry,url={url}", "rate=1", "level=TIMESTAMPS")
    return [
        str(installation.server),
        f"--id={name}",
        f"--model-repository={plain_repository(settings.repository, workspace)}",
        f"--backend-directory={backends_directory(installation, workspace)}",
        "--disable-auto-complete-config",
        "--model-control-mode=explicit",
        "--exit-on-error=false",  # a model that cannot be loaded takes none of the others along
        *(f"--load-model={model}" for model in models),
        *([] if settings.http_port else ["--allow-http=false"]),
        *(
            argument
            for listener, port in settings.ports.items()
            for argument in (f"--{listener}-address={settings.addresses[listener]}", f"--{listener}-port={port}")
        ),
        *([] if installation.gpu else ["--allow-gpu-metrics=false", "--pinned-memory-pool-byte-size=0"]),
        f"--backend-config=python,shm-region-prefix-name={region_prefix(regions)}",
        f"--backend-config=python,shm-default-byte-size={settings.shm_default_bytes}",
        f"--backend-config=python,shm-growth-byte-size={settings.shm_growth_bytes}",
        f"--model-load-thread-count={LOADERS}",
        f"--exit-timeout-secs={settings.drain_timeout_s}",
        *KEEPALIVE,
        *restricted_flags(settings.admin_key),
        *_tls_flags(settings.listen),
        *(["--log-verbose=1"] if settings.verbose else []),
        *(f"--trace-config={option}" for option in traces if settings.otlp),
    ]


def _absolute(path: Path | None) -> str:
    return "" if path is None else str(path.absolute())


def _tls_flags(listen: ListenTls) -> list[str]:
    if not listen.is_on:
        return []
    shown = [f"--grpc-server-cert={_absolute(listen.listen_cert)}", f"--grpc-server-key={_absolute(listen.listen_key)}"]
    if listen.listen_ca is None:
        return ["--grpc-use-ssl=true", *shown]
    return ["--grpc-use-ssl-mutual=true", *shown, f"--grpc-root-cert={_absolute(listen.listen_ca)}"]
