"""The Python processes of a server, one for each instance of a model: Triton neither sees one die nor starts another.

Source: Triton's Python backend 24.10, ``stub_launcher.cc``: the order of a stub's arguments.
"""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from serving.triton.server.group import living_members
from serving.triton.server.shared_memory import DIRECTORY

STUB = "triton_python_backend_stub"
AT_WORK = 0.1
"""Share of a processor that a process uses which is at work: threads that only look at a clock use less."""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProcess:
    """A process of a server.

    Attributes:
        pid: its number.
        started: when, in ticks since the machine started: a number may be given away again.
    """

    pid: int
    started: int

    @property
    def lives(self) -> bool:
        """Whether it runs, or is stopped; not one that only waits to be reaped."""
        with suppress(OSError, IndexError):
            fields = _stat(self.pid)
            return int(fields[19]) == self.started and fields[0] not in "ZX"
        return False

    @property
    def processor_s(self) -> float:
        """How long processors have worked for it; 0 of a dead one."""
        with suppress(OSError, IndexError):
            fields = _stat(self.pid)
            return (int(fields[11]) + int(fields[12])) / _TICKS
        return 0.0

    def kill(self) -> None:
        """End it at once."""
        if self.lives:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker(ServerProcess):
    """The process of one instance of a model.

    Attributes:
        model: that it runs.
        region: the name of its shared memory.
    """

    model: str
    region: str

    def kill(self) -> None:
        """End it at once, and remove its shared memory, which Triton leaves behind."""
        ServerProcess.kill(self)
        (DIRECTORY / self.region).unlink(missing_ok=True)


def workers_of(group: int) -> list[Worker]:
    """Those of the server in a process group."""
    return [worker for pid in living_members(group) if (worker := _worker_at(pid)) is not None]


def server_of(group: int) -> ServerProcess | None:
    """The server in a process group, if it runs."""
    for pid in living_members(group):
        with suppress(OSError):
            if (Path("/proc") / str(pid) / "comm").read_text() == "tritonserver\n":
                return ServerProcess(pid=pid, started=int(_stat(pid)[19]))
    return None


class WorkMeter:
    """Tells from time to time whether processes are at work."""

    def __init__(self) -> None:
        self._used_s = 0.0

    def at_work(self, processes: Iterable[ServerProcess], passed_s: float) -> bool:
        """Whether they used processors since the last look.

        Args:
            processes: as many as then.
            passed_s: how long ago that was.
        """
        before_s, self._used_s = self._used_s, sum(process.processor_s for process in processes)
        return self._used_s - before_s > AT_WORK * passed_s


def _worker_at(pid: int) -> Worker | None:
    with suppress(OSError, IndexError, ValueError):
        program, model_file, region = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:3]
        if Path(program).name == STUB:
            model = Path(model_file).parents[1].name
            return Worker(model=model, pid=pid, started=int(_stat(pid)[19]), region=region)
    return None


def _stat(pid: int) -> list[str]:
    # From the third field of proc(5) on: the second, a name, may hold spaces.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
