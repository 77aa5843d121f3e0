"""The command line of a tritonserver, for versions 2.51 (nvidia-pytriton 0.7.0) and newer."""

from __future__ import annotations

from pathlib import Path

from serving.triton.server.installation import Installation
from serving.triton.server.settings import ServerSettings
from serving.triton.server.shared_memory import region_prefix
from serving.triton.server.workspace import backends_directory


def command_line(settings: ServerSettings, installation: Installation, workspace: Path, name: str) -> list[str]:
    """Give the program and its arguments.

    Args:
        settings: what the user chose.
        installation: what is started.
        workspace: the server's temporary folder.
        name: what the server calls itself, and how the names of its shared memory begin.
    """
    return [
        str(installation.server),
        f"--id={name}",
        f"--model-repository={settings.repository}",
        f"--backend-directory={backends_directory(installation, workspace)}",
        "--disable-auto-complete-config",
        *_models(settings),
        *_listeners(settings),
        *_cache(settings, installation),
        *([] if installation.gpu else ["--allow-gpu-metrics=false", "--pinned-memory-pool-byte-size=0"]),
        *_python_backend(settings, name),
        f"--exit-timeout-secs={settings.drain_timeout_s}",
        *(["--log-verbose=1"] if settings.verbose else []),
        *_traces(settings),
    ]


def _models(settings: ServerSettings) -> list[str]:
    if not settings.models:
        return ["--model-control-mode=none"]  # nobody can load a model, which is to run code, over the network
    return ["--model-control-mode=explicit", *(f"--load-model={name}" for name in settings.models)]


def _listeners(settings: ServerSettings) -> list[str]:
    return [
        argument
        for name, port in settings.ports.items()
        for argument in (f"--{name}-address={settings.address}", f"--{name}-port={port}")
    ]


def _cache(settings: ServerSettings, installation: Installation) -> list[str]:
    if settings.cache_bytes == 0:
        return []
    return [f"--cache-directory={installation.caches}", f"--cache-config=local,size={settings.cache_bytes}"]


def _python_backend(settings: ServerSettings, name: str) -> list[str]:
    options = {
        "shm-region-prefix-name": region_prefix(name),
        "shm-default-byte-size": settings.shm_default_bytes,
        "shm-growth-byte-size": settings.shm_growth_bytes,
    }
    return [f"--backend-config=python,{option}={value}" for option, value in options.items()]


def _traces(settings: ServerSettings) -> list[str]:
    if not settings.otlp:
        return []
    url = f"{settings.otlp.rstrip('/')}/v1/traces"
    return [
        f"--trace-config={option}"
        for option in ("mode=opentelemetry", f"opentelemetry,url={url}", "rate=1", "level=TIMESTAMPS")
    ]
