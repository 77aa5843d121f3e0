"""The Python processes of a server, one for each instance of a model: Triton neither sees one die nor starts another.

Source: Triton's Python backend 24.10, ``stub_launcher.cc``: the order of a stub's arguments.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from serving.processes import ProcessRecord, process_fields, process_of
from serving.triton.server.group import living_members
from serving.triton.server.shared_memory import DIRECTORY
from serving.triton.stub_messages import STUB


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker(ProcessRecord):
    """The process of one instance of a model.

    Attributes:
        model: that it runs.
        region: the name of its shared memory.
    """

    model: str
    region: str

    def kill(self) -> None:
        """End it at once, and remove its shared memory, which Triton leaves behind."""
        ProcessRecord.kill(self)
        (DIRECTORY / self.region).unlink(missing_ok=True)


def workers_of(group: int) -> list[Worker]:
    """Those of the server in a process group."""
    return [worker for pid in living_members(group) if (worker := _worker_at(pid)) is not None]


def engines_of(workers: Iterable[Worker]) -> list[ProcessRecord]:
    """The processes that compute beside some workers: their children."""
    pids, found = {worker.pid for worker in workers}, []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            fields = process_fields(int(entry.name))
            if int(fields[1]) in pids:
                found.append(ProcessRecord(pid=int(entry.name), started=int(fields[19])))
    return found


def server_of(group: int) -> ProcessRecord | None:
    """The server in a process group, if it runs."""
    for pid in living_members(group):
        with suppress(OSError):
            if (Path("/proc") / str(pid) / "comm").read_text() == "tritonserver\n":
                return process_of(pid)
    return None


def _worker_at(pid: int) -> Worker | None:
    with suppress(OSError, IndexError, ValueError):
        program, model_file, region = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:3]
        if Path(program).name == STUB:
            model = Path(model_file).parents[1].name
            return Worker(model=model, pid=pid, started=int(process_fields(pid)[19]), region=region)
    return None
