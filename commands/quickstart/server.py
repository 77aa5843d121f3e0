"""A Triton over freshly written models, for as long as a stage needs it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attendant.progress import progress
from serving.triton.canary import canary_check
from serving.triton.repository.layout import write_repository
from serving.triton.server.endpoints import Endpoints
from serving.triton.server.ports import free_ports
from serving.triton.server.process import TritonServer
from serving.triton.server.settings import ServerSettings

START_TIMEOUT_S = 60.0


@contextmanager
def serve(folders: Sequence[Path], repository: Path) -> Iterator[Endpoints]:
    """Write artefacts into a repository, and serve them once each has answered its example."""
    names = [manifest.name for manifest in write_repository(folders, repository)]
    grpc, metrics = free_ports(2)
    settings = ServerSettings(repository=repository, grpc_port=grpc, metrics_port=metrics, models=tuple(names))
    with TritonServer(settings) as server:
        with progress("start Triton", 1) as advance:
            server.wait_until_ready(canary_check(set(names), timeout_s=10.0), START_TIMEOUT_S)
            advance("every model answered its example")
        yield server.endpoints
