"""Folders that change in one step: either the old contents or the new, never a half."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models.errors import OutputError

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextmanager
def replaced_folder(target: Path) -> Iterator[Path]:
    """Fill a new folder beside the target and put it in the target's place at the end.

    An error or an interruption inside the block leaves the target as it was.

    Args:
        target: the folder to make or to replace.

    Yields:
        An empty folder on the same file system.

    Raises:
        OutputError: the place cannot be written.
    """
    target = target.resolve()
    staged = _stage(target)
    try:
        yield staged
        _put_in_place(staged, target)
    except OSError as error:
        raise _output_error(target, error) from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _stage(target: Path) -> Path:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not (target.is_dir() and os.access(target, os.W_OK)):
            raise PermissionError(errno.EACCES, "not a folder that can be written", str(target))
        staged = Path(tempfile.mkdtemp(prefix=f".{target.name}.staging-", dir=target.parent))
        staged.chmod(0o755)
    except OSError as error:
        raise _output_error(target, error) from error
    return staged


def _put_in_place(staged: Path, target: Path) -> None:
    if not target.exists():
        staged.rename(target)
    elif not _exchange(staged, target):
        _rename_both(staged, target)


def _exchange(first: Path, second: Path) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    paths = os.fsencode(first), os.fsencode(second)
    return bool(libc.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0)


def _rename_both(staged: Path, target: Path) -> None:
    # For file systems without RENAME_EXCHANGE: two renames, the first undone if the second fails.
    old = target.rename(staged.with_name(staged.name + "-old"))
    try:
        staged.rename(target)
    except BaseException:
        old.rename(target)
        raise
    old.rename(staged)


def _output_error(target: Path, error: OSError) -> OutputError:
    return OutputError(f"a place to write at {target}", str(error), "choose another --out, or make it writable")
