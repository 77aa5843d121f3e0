"""Temporary folders that do not stay: where their process is killed, the next start of a server removes them.

They are called ``attendant_<pid namespace>_<pid>_0_…``, so that those of the dead can be told from those of the living.
A pid means nothing outside its namespace.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

SHARED_PLACE = Path("/tmp")  # noqa: S108  looked through as well as $TMPDIR # nosec B108


def temporary_folder(place: Path | None = None) -> "TemporaryDirectory[str]":
    """A folder of this process, to be used by ``with``.

    Args:
        place: ``$TMPDIR`` if not given, or :data:`SHARED_PLACE`.
    """
    return TemporaryDirectory(prefix=folder_prefix(os.getpid()), dir=place)


def folder_prefix(pid: int) -> str:
    """How folders of the process ``pid`` are called that the next start of a server removes, should it be killed."""
    return f"attendant_{pid_namespace()}_{pid}_0_"


def pid_namespace() -> int:
    """Give the number of the pid namespace in which this process lives."""
    return Path("/proc/self/ns/pid").stat().st_ino
