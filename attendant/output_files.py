"""Files that take the place of older ones whole: what breaks off, or finds no room, leaves what was there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Write a file anew beside what is there, and put it in its place at the end; a device or a pipe is written to.

    Yields:
        Where to write: an empty file of the same suffix, or the device.

    Raises:
        OSError: it cannot be written.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        yield path
        return
    staged = path.with_name(f".{os.getpid()}.{path.name}")  # another may write to the same place
    try:
        staged.open("x").close()
        yield staged
        staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)


def write_output(path: Path, text: str) -> None:
    """Put a file in the place of what is there, see :func:`replaced_file`.

    Raises:
        OSError: it cannot be written.
    """
    with replaced_file(path) as staged:
        staged.write_text(text, encoding="utf-8")
