"""`attendant serve` as a process under test: started, watched, ended, and looked for afterwards."""

import asyncio
import inspect
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from benchmarks.chaos.history import HistoryWriter
from benchmarks.chaos.processes import SHARED_MEMORY, ServerProcess, family_of
from benchmarks.chaos.scenario import Start
from benchmarks.harness.machine import ROOT
from serving.triton.server.ports import free_ports
from serving.verbs import serve

START_S = 60.0
GONE_S = 3.0
"""How long after its end a server's processes, regions and folders may still be there."""
DRAIN_S = 5
TICK_S = 0.25
_SPACE = """set -e
mount -t tmpfs -o size={disk_mb}m none "$TMPDIR"
if [ {shm_mb} -gt 0 ]; then mount -t tmpfs -o size={shm_mb}m none /dev/shm; fi
exec "$@"
"""


class Served:
    """One server under test.

    Attributes:
        grpc, gateway: where it answers, as ``host:port``.
        scratch: its temporary folder.
        models: that it is expected to serve.
    """

    def __init__(self, repository: Path, scratch: Path, history: HistoryWriter, start: Start, clock: Path) -> None:
        self._repository, self.scratch, self._history, self._start = repository, scratch, history, start
        self._clock = clock
        grpc, gateway, metrics, http = free_ports(4)
        self._ports = [grpc, gateway]
        self.grpc, self.gateway = f"127.0.0.1:{grpc}", f"127.0.0.1:{gateway}"
        words = ["--repository", str(repository), "--grpc-port", str(grpc), "--gateway-port", str(gateway)]
        words += ["--metrics-port", str(metrics), "--drain-timeout-s", str(DRAIN_S)]
        if inspect.signature(serve).parameters["http_port"].default:  # REST is on unless it is turned off
            words += ["--http-port", str(http)]
        self._command = [sys.executable, "-m", "attendant", "serve", *words]
        self.process: subprocess.Popen[bytes] | None = None
        self.ended_at: float | None = None
        self._asked = False
        self._seen: dict[tuple[int, int], ServerProcess] = {}
        self._alive: set[ServerProcess] = set()
        self._regions: set[str] = set()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def output(self) -> Path:
        return self.scratch.with_suffix(".out")

    async def start(self) -> bool:
        """Start it; whether it says where it answers, before it ends or the time is over."""
        self.scratch.mkdir(parents=True)
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                self._wrapped(), cwd=ROOT, env=self._environment(), stdout=output, stderr=subprocess.STDOUT
            )
        until = time.monotonic() + START_S
        while time.monotonic() < until and self.process.poll() is None:
            self.look()
            if re.search(rb"^gRPC +\S+:\d", self.output.read_bytes(), re.MULTILINE):
                return True
            await asyncio.sleep(TICK_S / 2)
        return False

    def _wrapped(self) -> list[str]:
        if not self._start.disk_mb:
            return self._command
        script = _SPACE.format(disk_mb=self._start.disk_mb, shm_mb=self._start.shm_mb)
        own_user = [] if os.geteuid() == 0 else ["-U", "-r"]
        return ["unshare", *own_user, "-m", "sh", "-c", script, "sh", *self._command]

    def _environment(self) -> dict[str, str]:
        inherited = dict(os.environ)  # noqa: TID251 - a launcher
        own = {"TMPDIR": str(self.scratch), "PYTHONPATH": str(ROOT)}
        if self._start.clock:
            own |= {"LD_PRELOAD": str(self._clock.with_suffix(".so")), "ATTENDANT_CLOCK": str(self._clock)}
        return {**inherited, **own}

    def look(self) -> list[ServerProcess]:
        """Its processes now; what was born and died since the last look is recorded."""
        family = family_of(self.pid)
        for one in family:
            self._regions |= one.regions
            if (one.pid, one.started) not in self._seen or self._seen[one.pid, one.started] != one:
                if (one.pid, one.started) not in self._seen:
                    self._history.record("process", what="born", pid=one.pid, role=one.role, model=one.model)
                self._seen[one.pid, one.started] = one
        alive = {(one.pid, one.started) for one in family}
        for one in [one for one in self._alive if (one.pid, one.started) not in alive and not one.is_alive]:
            self._history.record("process", what="died", pid=one.pid, role=one.role, model=one.model)
            self._alive.discard(one)
        self._alive = {one for one in self._alive if (one.pid, one.started) not in alive} | set(family)
        if self.process is not None and self.process.poll() is not None and self.ended_at is None:
            self.ended_at = self._history.record(
                "exit", status=self.process.returncode, asked=self._asked, round=self._history.round
            )
        return family

    def find(self, role: str, model: str = "") -> list[ServerProcess]:
        """Its living processes of a role."""
        return [one for one in self.look() if one.role == role and (not model or one.model in (model, ""))]

    def role_of_worker(self, model: str) -> str:
        """Whose work a model is: its engine's, where it has ever had one."""
        return "engine" if any((one.role, one.model) == ("engine", model) for one in self._seen.values()) else "stub"

    async def watch(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(TICK_S)

    def sample(self, quiet: bool) -> None:
        """Record what its processes hold."""
        family = self.look()
        self._history.record(
            "sample",
            quiet=quiet,
            rss_mb={one.label: round(one.resident_mb, 2) for one in family},
            descriptors={one.label: one.descriptors for one in family},
        )

    async def stop(self) -> None:
        """End it in order if it still runs, and record what it leaves behind, which is then removed."""
        self._asked = True
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            until = time.monotonic() + 3 * DRAIN_S
            while self.process.poll() is None and time.monotonic() < until:
                await asyncio.sleep(TICK_S / 2)
        await self.record_leftovers()

    async def record_leftovers(self) -> None:
        """Wait a little, then say what is left of it; and end and remove that."""
        until = time.monotonic() + GONE_S
        while (left := self._leftovers()) and time.monotonic() < until:
            await asyncio.sleep(TICK_S)
        self.look()
        if left:
            self._history.record("leftover", round=self._history.round, **left)
        for one in self._seen.values():
            if one.is_alive:
                with suppress(ProcessLookupError):
                    os.kill(one.pid, signal.SIGKILL)
        for name in self._regions:
            (Path(SHARED_MEMORY) / name).unlink(missing_ok=True)
        if self.process is not None:
            self.process.wait(10)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _leftovers(self) -> dict[str, list[str]]:
        found = {
            "processes": [one.label for one in self._seen.values() if one.is_alive],
            "regions": sorted(name for name in self._regions if (Path(SHARED_MEMORY) / name).exists()),
            "folders": sorted(path.name for path in self.scratch.glob("attendant*")),
            "ports": [str(port) for port in self._ports if not _is_free(port)],
        }
        return {name: values for name, values in found.items() if values}


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
