"""The servers that both tools ask: one of known token times, or the gateway before Triton, on cores of their own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.gateway.processes import gateway_before
from benchmarks.generation.served import exported, server_over
from serving.engine.settings import EngineSettings

FIRST_MS, BETWEEN_MS = 30.0, 8.0
_PROGRAM = Path(__file__).parent / "known_server.py"


@contextmanager
def known_times() -> Iterator[str]:
    """A server of known token times; its URL."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, _PROGRAM, str(port), str(FIRST_MS), str(BETWEEN_MS)])
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@contextmanager
def gateway_over(checkpoint: str) -> Iterator[tuple[str, Path]]:
    """A gateway before a Triton over one model; its URL, and the folder with the model's tokenizer."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        artefacts = exported([checkpoint], place / "artefacts")
        # Its own canaries would come in between.
        with (
            server_over(artefacts, place, EngineSettings()) as server,
            gateway_before(server.endpoints.grpc, probe_s=3600) as (_, port),
        ):
            (tokenizer,) = place.glob("model_repository/*/1/tokenizer.json")
            yield f"http://127.0.0.1:{port}", tokenizer.parent


@contextmanager
def on_cores(cores: set[int]) -> Iterator[None]:
    """What is started meanwhile stays on these cores; afterwards this process has its own again."""
    before = os.sched_getaffinity(0)
    _move_to(cores)
    try:
        yield
    finally:
        _move_to(before)


def _move_to(cores: set[int]) -> None:
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), cores)


def _wait_for(port: int) -> None:
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the server of known times did not start")
