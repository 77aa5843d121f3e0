"""SHA-256 of large files, remembered for a user from run to run, so that gigabytes are hashed once.

A file is known again by device, inode, size and both of its times: content cannot change without the second, which no
program can set, once the kernel has written the file to disk; before, a process that shares its memory can change it
(``mmap``), and always where there is no disk (tmpfs). Forgetting, or a place that cannot be written, costs time and
nothing else.
"""

import contextlib
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from attendant.manifest import sha256_of

SMALL = 1 << 20
_MOST = 1000
# The first write to a page of shared memory moves the times, and none does until the page is on disk: 30 s later, as
# vm.dirty_expire_centisecs says, and 5 s until the kernel looks. Two writes within a tick of its clock are one as well.
_SETTLED_NS = 60_000_000_000


def remembered_sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal.

    Args:
        path: a file; one that is smaller than a mebibyte is hashed each time.

    Raises:
        OSError: it cannot be read.
    """
    before = path.stat()
    if before.st_size < SMALL:
        return sha256_of(path)
    key, state = f"{before.st_dev}-{before.st_ino}", _state(before)
    known = _read_hashes().get(key)
    if isinstance(known, list) and known[:-1] == state:
        return str(known[-1])
    settled = time.time_ns() - max(before.st_mtime_ns, before.st_ctime_ns) > _SETTLED_NS
    found = sha256_of(path)
    if settled and _state(path.stat()) == state:
        others = {name: value for name, value in _read_hashes().items() if name != key}
        newest = [*others.items(), (key, [*state, found])][-_MOST:]
        with contextlib.suppress(OSError, RuntimeError):
            _write(memory_file(), json.dumps(dict(newest)))
    return found


def memory_file() -> Path:
    """Where hashes are remembered: in the user's folder for what can be made again."""
    place = os.environ.get("XDG_CACHE_HOME")  # noqa: TID251  (the user's own word on where such files lie)
    return (Path(place) if place else Path.home() / ".cache") / "attendant" / "hashes.json"


def _state(status: os.stat_result) -> list[int]:
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _read_hashes() -> dict[str, Any]:
    try:
        value = json.loads(memory_file().read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError):  # RuntimeError: the user has no home
        return {}
    return value if isinstance(value, dict) else {}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, staged = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(staged).replace(path)
    except BaseException:
        Path(staged).unlink(missing_ok=True)
        raise
