"""A gateway in a process of its own, as users run it."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

from serving.triton.server.ports import free_ports

START_S = 60.0


@contextmanager
def gateway_before(*tritons: str, **options: object) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The process, which leads a group of its own, and its port; ready to answer.

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
        _wait(process, port)
        yield process, port
    finally:
        process.terminate()
        process.wait(60)


def resident_mib(pid: int) -> float:
    """Memory of a process that is in use, in MiB."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return int(fields["VmRSS"].split()[0]) / 1024


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    ends = monotonic() + START_S
    while monotonic() < ends:
        assert process.poll() is None, f"the gateway ended with {process.returncode}"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                return
        except OSError:
            sleep(0.05)
    raise AssertionError("the gateway did not become ready")
