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
read -r ended || { kill -s KILL -- "-$1"; sleep 0.1; }
read -r _
rm -rf -- "$2" "$3"*
"""
"""A shell's, as it takes a tenth of an interpreter's memory. A line says that the group has ended: its number may be
given to another."""


class Reaper:
    """One server's, from its start until nothing is left of it.

    Args:
        group: the server's process group.
        workspace: its temporary folder.
        regions: how the names of its shared memory begin.
    """

    def __init__(self, group: int, workspace: Path, regions: str) -> None:
        words = [str(group), str(workspace), str(DIRECTORY / region_prefix(regions))]
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "reaper", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def group_has_ended(self) -> None:
        """Kill the group no more; the folder stays for whoever reads its log, unless this process is killed."""
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):  # it was killed, or dismissed
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()
        atexit.register(self.dismiss)

    def dismiss(self) -> None:
        """End it: nothing is left that it should remove. Again is no harm."""
        atexit.unregister(self.dismiss)
        with suppress(OSError), self._process:
            self._process.kill()
