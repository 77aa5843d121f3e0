"""The processes of one server, known by their process group, whose number is the pid of its first process.

As long as that process is not reaped its number cannot be given away, so a group is always killed before its
first process is reaped.
"""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from attendant.errors import ServerError
from serving.processes import process_fields

POLL_S = 0.05
VANISH_S = 5.0


def has_exited(process: subprocess.Popen[bytes]) -> bool:
    """Say whether the first process has ended, without reaping it."""
    if process.returncode is not None:
        return True
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def wait_for_exit(process: subprocess.Popen[bytes], timeout_s: float) -> None:
    """Return when the first process has ended or the time is over, without reaping it."""
    deadline = time.monotonic() + timeout_s
    while not has_exited(process) and time.monotonic() < deadline:
        time.sleep(POLL_S)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the group, reap its first process and see the others gone.

    Raises:
        ServerError: a process outlives SIGKILL.
    """
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + VANISH_S
    while (remaining := _members_or_why(process.pid)) != []:
        if time.monotonic() > deadline:
            found = f"processes {remaining}"
            raise ServerError("no process left of the server", found, "the kernel holds them: see `ps -o stat,wchan`")
        time.sleep(POLL_S)


def reap_orphans() -> None:
    """Reap the dead of servers that nobody else waits for: they fall to the first process of a container."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            pid, (state, parent, group) = int(entry.name), process_fields(int(entry.name))[:3]
            # The first process of a group is our own child, and so is who is in our group: others wait for these.
            if state == "Z" and int(parent) == os.getpid() and int(group) not in (pid, os.getpgrp()):
                os.waitpid(pid, os.WNOHANG)


def living_members(group: int) -> list[int]:
    """List the processes of a group, without those that only wait to be reaped."""
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if _lives_in(entry, group)]


def _members_or_why(group: int) -> list[int] | str:
    try:
        return living_members(group)
    except OSError as error:  # there is no descriptor left to look with
        return str(error)


def _lives_in(entry: Path, group: int) -> bool:
    with contextlib.suppress(OSError):  # it ended while we looked
        state, _, member_of = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
        return int(member_of) == group and state != "Z"
    return False
