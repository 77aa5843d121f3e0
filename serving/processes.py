"""Processes by their numbers: whether one lives, how much it works, and its end; and Python ones that we talk with."""

import math
import os
import pickle  # nosec B403  both ends are ours
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

HANG_S = 4.1
"""How long a process may neither work nor answer: less than that is a pause."""
LONGEST_STEP_S = 120.0
"""How long a process may work without a result."""
AT_WORK = 0.1
"""Share of a processor that a process uses which is at work: threads that only look at a clock use less."""
STARVED = 0.5
"""Share of a processor that a process uses or waits for which would work, had it one of its own."""
PR_SET_PDEATHSIG = 1
"""Of linux/prctl.h."""
OOM_SCORE = "300"
"""Of 1000: by so much more likely is a process ended where memory runs out (proc_pid_oom_score_adj(5))."""
_TICKS = os.sysconf("SC_CLK_TCK")
_MISSING = (FileNotFoundError, ProcessLookupError, IndexError)
_CODE = (
    f"import ctypes, sys; ctypes.CDLL(None).prctl({PR_SET_PDEATHSIG}, {int(signal.SIGKILL)}); sys.path[:] = {{path!r}};"
    " from {module} import {function}; {function}({descriptor})"
)
"""It ends with who started it, also while it still imports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """A process.

    Attributes:
        pid: its number.
        started: when, in ticks since the machine started: a number may be given away again.
    """

    pid: int
    started: int

    @property
    def lives(self) -> bool:
        """Whether it runs, or is stopped; not one that only waits to be reaped. It does while no file can be opened."""
        try:
            fields = process_fields(self.pid)
            return int(fields[19]) == self.started and fields[0] not in "ZX"
        except _MISSING:
            return False
        except OSError:
            return True

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has stopped it, as far as we can see."""
        with suppress(OSError, IndexError):
            return process_fields(self.pid)[0] == "T"
        return False

    @property
    def switches(self) -> float:
        """How often its first thread left a processor: more once it was stopped and went on; NaN if we cannot see."""
        with suppress(OSError, IndexError):
            status = Path(f"/proc/{self.pid}/status").read_text()
            return sum(map(int, re.findall(r"^(?:non)?voluntary_ctxt_switches:\s*(\d+)", status, re.MULTILINE)))
        return math.nan

    def blocks(self, *signals: int) -> bool:
        """Whether a thread of it blocks one of these signals, as the handler of one does; as far as we can see."""
        blocked = 0
        with suppress(OSError):
            for thread in Path(f"/proc/{self.pid}/task").iterdir():
                with suppress(OSError):
                    blocked |= int(
                        re.findall(r"^SigBlk:\s*(\S+)", (thread / "status").read_text(), re.MULTILINE)[0], 16
                    )
        return any(blocked >> (number - 1) & 1 for number in signals)

    @property
    def processor_s(self) -> float:
        """How long processors have worked for it; 0 of a dead one, NaN while no file can be opened."""
        try:
            fields = process_fields(self.pid)
            return (int(fields[11]) + int(fields[12])) / _TICKS
        except _MISSING:
            return 0.0
        except OSError:
            return math.nan

    @property
    def waited_s(self) -> float:
        """How long its threads could have worked, and waited for a processor: 0 where the kernel does not say."""
        waited_ns = 0
        with suppress(OSError):
            for thread in Path(f"/proc/{self.pid}/task").iterdir():
                with suppress(OSError, IndexError):
                    waited_ns += int((thread / "schedstat").read_text().split()[1])
        return waited_ns / 1e9

    @property
    def is_runnable(self) -> bool:
        """Whether a thread of it works or waits for a processor just now, as far as we can see."""
        with suppress(OSError):
            for thread in Path(f"/proc/{self.pid}/task").iterdir():
                with suppress(OSError, IndexError):
                    if process_fields(f"{self.pid}/task/{thread.name}")[0] == "R":
                        return True
        return False

    def kill(self) -> None:
        """End it at once."""
        if self.lives:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


class WorkMeter:
    """Tells from time to time how much processes work, or would."""

    def __init__(self) -> None:
        self._used_s, self._waited_s = 0.0, math.nan

    def share(self, processes: Iterable[ProcessRecord], passed_s: float) -> float:
        """How much of a processor they used since the last look; without end while no file can be opened.

        Args:
            processes: the same as then.
            passed_s: how long ago that was.
        """
        used_s = sum(process.processor_s for process in processes)
        if math.isnan(used_s):
            return math.inf
        before_s, self._used_s = self._used_s, used_s
        return (used_s - before_s) / passed_s

    def waiting_share(self, processes: Iterable[ProcessRecord], passed_s: float) -> float:
        """How much of a processor they waited for since the last look of this kind; NaN at the first.

        The kernel counts a wait once it is over: who waits just now waits for a whole one. Every thread is looked at,
        which takes a while: for processes that seem to stand still. See :meth:`share`.
        """
        looked = list(processes)
        before_s, self._waited_s = self._waited_s, sum(process.waited_s for process in looked)
        waits = any(process.is_runnable for process in looked)
        return 1.0 if waits else (self._waited_s - before_s) / passed_s


def process_of(pid: int) -> ProcessRecord:
    """The process that has a number now.

    Raises:
        OSError: none has.
    """
    return ProcessRecord(pid=pid, started=int(process_fields(pid)[19]))


def process_fields(pid: int | str) -> list[str]:
    """What proc(5) says of a process, from the third field of its ``stat`` on: the second, a name, may hold spaces.

    Raises:
        OSError: there is none.
    """
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def start_python(module: str, function: str) -> tuple[subprocess.Popen[bytes], Connection]:
    """Start a Python process that calls a function with the descriptor of its end of a socket.

    Args:
        module: which this process could import.
        function: of that module; it begins with :func:`connection_of`.

    Returns:
        The process, and our end.
    """
    ours, theirs = Pipe()
    with theirs:
        number = theirs.fileno()
        code = _CODE.format(path=sys.path, module=module, function=function, descriptor=number)
        return subprocess.Popen([_python(), "-I", "-c", code], pass_fds=[number]), ours


def _python() -> str:
    # Within a stub, where Python is a library, sys.executable is the first python3 on PATH, of whatever version.
    name = "python{}.{}".format(*sys.version_info)
    own = Path(sys.executable or "/").with_name(name)
    return str(own) if own.exists() else shutil.which(name) or sys.executable


def connection_of(descriptor: int) -> Connection:
    """The other end of the socket in a process of :func:`start_python`."""
    volunteer_to_end()
    return Connection(descriptor)


def volunteer_to_end() -> None:
    """Where memory runs out, let the kernel end this process rather than one that starts, watches or asks it."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)


def send(connection: Connection, message: object) -> None:
    """Write a message; ``Connection.send`` takes four times as long for a small one."""
    connection.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))


def receive(connection: Connection) -> Any:
    """Wait for a message of :func:`send`.

    Raises:
        EOFError, OSError: the other end is closed.
    """
    return pickle.loads(connection.recv_bytes())  # noqa: S301  the other end is ours  # nosec B301
