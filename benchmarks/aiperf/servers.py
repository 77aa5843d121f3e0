"""The servers that both tools load: one of known token times, or the gateway before Triton, on cores of their own."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.harness.machine import ROOT
from benchmarks.harness.servers import export_models, gateway_before, triton_over
from serving.triton.server.ports import free_ports

FIRST_MS, BETWEEN_MS = 30.0, 8.0


@contextmanager
def known_times() -> Iterator[str]:
    """A server of known token times; its URL."""
    (port,) = free_ports(1)
    words = ["-m", "benchmarks.aiperf.known_server", str(port), str(FIRST_MS), str(BETWEEN_MS)]
    process = subprocess.Popen([sys.executable, *words], cwd=ROOT)
    try:
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        else:
            raise RuntimeError("the server of known times did not start")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@contextmanager
def gateway_over(checkpoint: str) -> Iterator[tuple[str, Path]]:
    """A gateway before a Triton over one model; its URL, and the folder with the model's tokenizer."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        artefacts = export_models([checkpoint], place / "artefacts")
        # Its own canaries would come in between.
        with triton_over(artefacts, place) as server, gateway_before(server.endpoints.grpc, probe_s=3600) as (_, port):
            (tokenizer,) = place.glob("model_repository/*/1/tokenizer.json")
            yield f"http://127.0.0.1:{port}", tokenizer.parent


@contextmanager
def on_cores(cores: set[int]) -> Iterator[None]:
    """What is started meanwhile stays on these cores; afterwards this process has its own again."""

    def move(to: set[int]) -> None:
        for thread in Path("/proc/self/task").iterdir():
            os.sched_setaffinity(int(thread.name), to)

    before = os.sched_getaffinity(0)
    move(cores)
    try:
        yield
    finally:
        move(before)
