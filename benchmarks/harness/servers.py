"""Real servers on ports of their own: a tritonserver over artefacts, and a gateway before it, as users run them."""

import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

from export.artefact.stage import export_onnx
from serving.engine.settings import EngineSettings
from serving.triton.canary import canary_check
from serving.triton.repository.layout import write_repository
from serving.triton.server.ports import free_ports
from serving.triton.server.process import TritonServer
from serving.triton.server.settings import ServerSettings

START_TIMEOUT_S = 120.0


def export_models(names: Sequence[str], place: Path, precision: str = "fp32", explain: bool = False) -> dict[str, Path]:
    """Artefacts of checkpoints, name → folder; made unless they are there."""
    folders = {name: place / Path(name).name.removesuffix(".py") for name in names}
    for name, folder in folders.items():
        export_onnx(name, folder, precision=precision, explain=explain)
    return {folder.name: folder for folder in folders.values()}


@contextmanager
def triton_over(
    artefacts: Mapping[str, Path], scratch: Path, settings: EngineSettings | None = None, threads: int = 1
) -> Iterator[TritonServer]:
    """A tritonserver over artefacts, ready to answer; it must still run at the end."""
    repository = scratch / "model_repository"
    write_repository(artefacts.values(), repository, threads, engine=settings or EngineSettings())
    http, grpc, metrics = free_ports(3)
    with TritonServer(
        ServerSettings(repository=repository, http_port=http, grpc_port=grpc, metrics_port=metrics)
    ) as server:
        server.wait_until_ready(canary_check(set(artefacts), START_TIMEOUT_S), START_TIMEOUT_S)
        yield server
        assert server.poll() is None, f"tritonserver ended with {server.returncode}; see {server.log}"


@contextmanager
def gateway_before(*tritons: str, **options: object) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A gateway in a process of its own, which leads a group, and its port; ready to answer.

    Args:
        tritons: gRPC addresses.
        options: flags of `attendant gateway`, with underscores.
    """
    (port,) = free_ports(1)
    words = ["--server", ",".join(tritons), "--port", str(port)]
    words += [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    process = subprocess.Popen(
        [sys.executable, "-m", "attendant", "gateway", *words], stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        until = monotonic() + START_TIMEOUT_S
        while not _is_ready(port):
            assert process.poll() is None, f"the gateway ended with {process.returncode}"
            assert monotonic() < until, "the gateway did not become ready"
            sleep(0.05)
        yield process, port
    finally:
        process.terminate()
        process.wait(60)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):  # http, of this file  # nosec B310
            return True
    except OSError:
        return False
