"""Files that take the place of older ones whole: what breaks off, or finds no room, leaves what was there."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_IMODE

_NO_PLACE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG)
"""Beside a file: it may be one that can be written all the same."""


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Write a file anew beside what is there, and put it in its place at the end, with its permissions.

    Written to itself is a device, a pipe, what a process has open (``/dev/stdout``), and a file beside which none can
    be made.

    Yields:
        Where to write: an empty file of the same suffix, or what is written to itself.

    Raises:
        OSError: it cannot be written.
    """
    place = path.resolve()
    folder = path.parent.resolve()
    is_open = path.is_symlink() and (folder == Path("/dev") or folder.is_relative_to("/proc"))
    if is_open or (path.exists() and not path.is_file()):
        yield path
        return
    staged = place.with_name(f".{os.getpid()}.{place.name}")  # another may write to the same place
    mode = S_IMODE(place.stat().st_mode) if place.exists() else None
    try:
        staged.touch(0o666 if mode is None else mode, exist_ok=False)
    except OSError as error:
        if mode is None or error.errno not in _NO_PLACE or not os.access(place, os.W_OK):
            raise
        place.write_bytes(b"")
        yield place
        return
    try:
        if mode is not None:
            staged.chmod(mode)  # whatever the umask says
        yield staged
        staged.replace(place)
    finally:
        staged.unlink(missing_ok=True)


def write_output(path: Path, text: str) -> None:
    """Put a file in the place of what is there, see :func:`replaced_file`.

    Raises:
        OSError: it cannot be written.
    """
    with replaced_file(path) as staged, staged.open("a", encoding="utf-8") as file:  # a log is not cut
        file.write(text)
