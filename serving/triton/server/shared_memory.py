"""The shared memory of our servers: how its regions are named, and which of them may be removed.

A Python-backend model exchanges tensors with its stub through regions in /dev/shm, which outlive a server
that was killed. Ours are named ``attendant_<pid namespace>_<pid>_<token>_…``, after the process that started
the server, so that the regions of the dead can be told from those of the living. A pid means nothing outside
its namespace, and containers may share /dev/shm: regions of another namespace are left alone.
"""

import contextlib
import os
import re
import secrets
import stat
from pathlib import Path

from attendant.temporary_folders import pid_namespace

DIRECTORY = Path("/dev/shm")  # noqa: S108  the kernel's own place for shared memory # nosec B108
OURS = re.compile(r"attendant_(?P<namespace>\d+)_(?P<pid>\d{1,9})_[0-9a-f]+_")


def new_server_name(pid: int) -> str:
    """Name a server that the process ``pid`` of this namespace starts, or its regions: nobody can guess it."""
    return f"attendant_{pid_namespace()}_{pid}_{secrets.token_hex(16)}"


def is_orphan(name: str) -> bool:
    """Whether a name is that of a server, or begins so, whose starter is dead."""
    match = OURS.match(f"{name}_")
    return match is not None and match["namespace"] == str(pid_namespace()) and not _lives(int(match["pid"]))


def region_prefix(name: str) -> str:
    """Say how the names of a server's regions begin, without what Triton adds."""
    return f"{name}_"


def narrow_regions(name: str, directory: Path = DIRECTORY) -> None:
    """Let no other user read the regions of one server: Triton makes them readable to all, whatever the umask."""
    for region in directory.glob(f"{region_prefix(name)}*"):
        with contextlib.suppress(OSError):  # removed meanwhile, or a link of somebody else
            descriptor = os.open(region, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                found = os.fstat(descriptor)
                if found.st_uid == os.geteuid() and stat.S_ISREG(found.st_mode) and found.st_mode & 0o077:
                    os.fchmod(descriptor, 0o600)
            finally:
                os.close(descriptor)


def remove_regions(name: str, directory: Path = DIRECTORY) -> None:
    """Remove the regions of one server that ``new_server_name`` named; another name removes nothing."""
    for region in directory.glob("attendant_*"):
        if OURS.match(region.name) and region.name.startswith(region_prefix(name)):
            _remove(region)


def remove_dead_regions(directory: Path = DIRECTORY) -> None:
    """Remove the regions that servers of ours left behind when the process that started them died."""
    for region in directory.glob("attendant_*"):
        if is_orphan(region.name):
            _remove(region)


def _remove(region: Path) -> None:
    with contextlib.suppress(OSError):  # gone meanwhile; another user's, or a folder: no region of ours
        region.unlink()


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
