"""The processes of a server under test, found among the children of the one that was started, and what they hold."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
PAGE_BYTES = 4096
SHARED_MEMORY = "/dev/shm/"  # noqa: S108  the kernel's own place for shared memory  # nosec B108


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """One process, known again by when it started: numbers are given away anew.

    Attributes:
        role: serve, guard, server, stub, engine (the process that a generative model's stub has beside it), or other.
        model: of a stub or an engine.
    """

    pid: int
    started: int
    role: str
    model: str = ""

    @property
    def label(self) -> str:
        return " ".join(filter(None, [self.role, str(self.pid), self.model]))

    @property
    def is_alive(self) -> bool:
        """Whether it runs: one that only waits for its parent does not."""
        words = _status(self.pid)
        return bool(words) and words[0] != "Z" and int(words[19]) == self.started

    @property
    def resident_mb(self) -> float:
        with suppress(OSError, ValueError, IndexError):
            return int((PROC / str(self.pid) / "statm").read_text().split()[1]) * PAGE_BYTES / 1e6
        return 0.0

    @property
    def descriptors(self) -> int:
        with suppress(OSError):
            return sum(1 for _ in (PROC / str(self.pid) / "fd").iterdir())
        return 0

    @property
    def regions(self) -> set[str]:
        """Files of shared memory that it has mapped."""
        with suppress(OSError):
            lines = (PROC / str(self.pid) / "maps").read_text().splitlines()
            return {line.partition(SHARED_MEMORY)[2].strip() for line in lines if SHARED_MEMORY in line}
        return set()


def family_of(pid: int) -> list[ServerProcess]:
    """A process and all that descend from it, alive."""
    parents, statuses = dict[int, int](), dict[int, list[str]]()
    for folder in PROC.glob("[0-9]*"):
        number = int(folder.name)
        if (words := _status(number)) and words[0] != "Z":
            parents[number], statuses[number] = int(words[1]), words
    found = {pid} & statuses.keys()
    while grown := {child for child, parent in parents.items() if parent in found} - found:
        found |= grown
    return [ServerProcess(one, int(statuses[one][19]), *_role(one, pid, parents[one])) for one in sorted(found)]


def _role(pid: int, root: int, parent: int) -> tuple[str, str]:
    if pid == root:
        return "serve", ""
    words = list(_words(pid))
    program = Path(words[0]).name if words else ""
    if program == "triton_python_backend_stub":
        return "stub", next((Path(word).parts[-3] for word in words if word.endswith("/model.py")), "")
    if any("serve_engine" in word for word in words):
        return "engine", _role(parent, root, 0)[1]
    if program == "tritonserver":
        return "server", ""
    return ("guard", "") if any("server.guard" in word for word in words) else ("other", "")


def _words(pid: int) -> Iterator[str]:
    with suppress(OSError):
        yield from (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")


def _status(pid: int) -> list[str]:
    with suppress(OSError):
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return []
