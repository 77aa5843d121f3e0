"""A process that removes what a server leaves where the program that started it was killed, and its guard with it.

It waits on a pipe whose other end only the starter holds: the kernel closes that one however the starter ends. It has a
session of its own: signals to the server's group, or to the terminal's, do not reach it.
"""

import atexit
import subprocess
from contextlib import suppress
from pathlib import Path

from serving.triton.server.shared_memory import DIRECTORY, region_prefix

_SCRIPT = """
PATH="$PATH:/usr/bin:/bin"
if read -r group; then read -r ended || { kill -s KILL -- "-$group"; sleep 0.1; }; else sleep 1; fi
read -r _
rm -rf -- "$1"* "$2"*
"""
"""A shell's, as it takes a tenth of an interpreter's memory. It reads the number of the server's group, then a line
once that has ended: its number may be another's then. Without one it waits for the guard to see its starter gone."""


class Reaper:
    """One server's, from before its start until nothing is left of it.

    Args:
        workspace: how the path of its temporary folder begins, as no other's does.
        regions: how the names of its shared memory begin.
    """

    def __init__(self, workspace: Path, regions: str) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "reaper", str(workspace), str(DIRECTORY / region_prefix(regions))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def watch(self, group: int) -> None:
        """Kill the server's process group, too, where this process is killed."""
        self._tell(str(group))

    def group_has_ended(self) -> None:
        """Kill the group no more; the folder stays for whoever reads its log, unless this process is killed."""
        self._tell("ended")
        atexit.register(self.dismiss)

    def dismiss(self) -> None:
        """End it: nothing is left that it should remove. Again is no harm."""
        atexit.unregister(self.dismiss)
        with suppress(OSError), self._process:
            self._process.kill()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):  # it was killed, or dismissed
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
