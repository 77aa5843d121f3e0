"""Artefacts behind a real tritonserver, on ports of its own."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from export.artefact.stage import export_onnx
from serving.engine.settings import EngineSettings
from serving.triton.canary import canary_check
from serving.triton.repository.layout import write_repository
from serving.triton.server.ports import free_ports
from serving.triton.server.process import TritonServer
from serving.triton.server.settings import ServerSettings

START_TIMEOUT_S = 120.0


def exported(names: list[str], place: Path, precision: str = "fp32") -> dict[str, Path]:
    """Artefacts of checkpoints, name → folder; made unless they are there."""
    folders = {name: place / Path(name).name.removesuffix(".py") for name in names}
    for name, folder in folders.items():
        export_onnx(name, folder, precision=precision)
    return {folder.name: folder for folder in folders.values()}


@contextmanager
def server_over(
    artefacts: Mapping[str, Path], scratch: Path, settings: EngineSettings, threads: int = 1
) -> Iterator[TritonServer]:
    """A tritonserver over artefacts, ready to answer; it must still run at the end."""
    repository = scratch / "model_repository"
    write_repository(artefacts.values(), repository, threads, engine=settings)
    http, grpc, metrics = free_ports(3)
    with TritonServer(
        ServerSettings(repository=repository, http_port=http, grpc_port=grpc, metrics_port=metrics)
    ) as server:
        server.wait_until_ready(canary_check(set(artefacts), START_TIMEOUT_S), START_TIMEOUT_S)
        yield server
        assert server.poll() is None, f"tritonserver ended with {server.returncode}; see {server.log}"


def engine_counts(server: TritonServer) -> dict[str, dict[str, float]]:
    """What every engine has counted: model → count, without ``attendant_`` and ``_total``, or why it ended → value."""
    with urllib.request.urlopen(f"http://{server.endpoints.metrics}/metrics", timeout=10) as page:
        lines = page.read().decode().splitlines()
    counts: dict[str, dict[str, float]] = {}
    for line in lines:
        name, brace, rest = line.partition("{")
        if brace and name.startswith("attendant_") and 'le="' not in rest:
            model = rest.partition('model="')[2].partition('"')[0]
            reason = rest.partition('finished_reason="')[2].partition('"')[0]
            count = reason or name.removeprefix("attendant_").removesuffix("_total")
            counts.setdefault(model, {})[count] = float(rest.split()[-1])
    return counts
