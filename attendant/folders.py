"""Folders that change in one step: either the old contents or the new, never a half.

What a process holds is locked by the kernel, which lets go when it ends, however it ends: what a killed one has left is
known by its lock, not by a number that another process may have by now.
"""

import ctypes
import errno
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attendant.errors import OutputError

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_OLD = "-old"
FULL_DISK = {errno.ENOSPC, errno.EDQUOT}


@contextmanager
def one_at_a_time(target: Path) -> Iterator[None]:
    """Let one process after the other work on a folder; the second waits, and says so on standard error.

    Args:
        target: the folder, which need not exist; beside it lies an empty file while the block runs.

    Raises:
        OutputError: the place cannot be written.
    """
    target = target.resolve()
    lock = _lock_of(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _open_locked(lock, target)
    except OSError as error:
        raise _output_error(target, error) from error
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


@contextmanager
def replaced_folder(target: Path) -> Iterator[Path]:
    """Fill a new folder beside the target and put it in the target's place at the end.

    An error or an interruption inside the block leaves the target as it was. What a process has left that was killed
    inside its block is cleared away.

    Args:
        target: the folder to make or to replace.

    Yields:
        An empty folder on the same file system.

    Raises:
        OutputError: the place cannot be written.
    """
    target = target.resolve()
    staged, descriptor = _stage(target)
    try:
        yield staged
        if not target.exists():
            staged.rename(target)
        elif not _exchange(staged, target):
            # For file systems without RENAME_EXCHANGE: two renames, the first undone if the second fails.
            with _held(target):  # so that nobody clears it away in between
                old = target.rename(staged.with_name(staged.name + _OLD))
                try:
                    staged.rename(target)
                except BaseException:
                    old.rename(target)
                    raise
                old.rename(staged)
    except OSError as error:
        raise _output_error(target, error) from error
    finally:
        _remove(staged)
        os.close(descriptor)


@contextmanager
def staged_beside(target: Path) -> Iterator[Path]:
    """A new folder beside a file, for what is to take its place by renaming; it is removed at the end.

    What a process has left that was killed inside its block is cleared away.

    Args:
        target: the file, which need not exist.

    Yields:
        An empty folder on the same file system.

    Raises:
        OutputError: the place cannot be written.
    """
    target = target.parent.resolve() / target.name
    try:
        _clear_staged(target)
        staged, descriptor = _new_folder(target)
    except OSError as error:
        raise _output_error(target, error) from error
    try:
        yield staged
    finally:
        _remove(staged)
        os.close(descriptor)


def clear_left_behind(target: Path) -> None:
    """Remove what lies beside a folder of processes that were killed while they wrote it; what the living hold stays.

    Args:
        target: the folder, which need not exist.
    """
    target = target.resolve()
    if not target.parent.is_dir():
        return
    _clear_staged(target)
    with suppress(FileNotFoundError):
        lock = _lock_of(target)
        descriptor = os.open(lock, os.O_RDONLY)
        try:
            if _try_lock(descriptor, without_locks=False) and _is_still(lock, descriptor):
                lock.unlink()
        finally:
            os.close(descriptor)


def _lock_of(target: Path) -> Path:
    return target.with_name(f".{target.name}.lock")


def _open_locked(lock: Path, target: Path) -> int:
    waiting = False
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        if not _try_lock(descriptor, without_locks=True):
            if not waiting:
                sys.stderr.write(f"another process is writing {target}: waiting until it has ended\n")
            waiting = True
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_still(lock, descriptor):
            return descriptor
        os.close(descriptor)  # the one that held it has removed it: what is at the path now is another file


def _stage(target: Path) -> tuple[Path, int]:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not (target.is_dir() and os.access(target, os.W_OK)):
            raise PermissionError(errno.EACCES, "not a folder that can be written", str(target))
        _clear_staged(target)
        return _new_folder(target)
    except OSError as error:
        raise _output_error(target, error) from error


def _prefix(target: Path) -> str:
    return f".{target.name}.staging-"


def _new_folder(target: Path) -> tuple[Path, int]:
    while True:
        staged = Path(tempfile.mkdtemp(prefix=_prefix(target), dir=target.parent))
        with suppress(FileNotFoundError):  # cleared away by another process before it was locked
            staged.chmod(0o755)
            descriptor = os.open(staged, os.O_RDONLY)
            if _try_lock(descriptor, without_locks=True) and _is_still(staged, descriptor):
                return staged, descriptor
            os.close(descriptor)


def _clear_staged(target: Path) -> None:
    for path in sorted(target.parent.iterdir()):
        if path.name.startswith(_prefix(target)) and path.is_dir():
            # What another user has called so, in a folder that all may write, is none of ours.
            with suppress(FileNotFoundError, PermissionError), _held(path) as held:
                if not held or path.lstat().st_uid != os.geteuid():
                    continue
                if path.name.endswith(_OLD) and not target.exists():
                    path.rename(target)  # killed between two renames: this is all there is
                else:
                    _remove(path)


def _remove(folder: Path) -> None:
    with suppress(RecursionError):  # nested deeper than any that we write
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _held(folder: Path) -> Iterator[bool]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield _try_lock(descriptor, without_locks=False)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, without_locks: bool) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return without_locks  # a file system that has none
    return True


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _exchange(first: Path, second: Path) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    paths = os.fsencode(first), os.fsencode(second)
    return bool(libc.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0)


def _output_error(target: Path, error: OSError) -> OutputError:
    full = error.errno in FULL_DISK
    remedy = "free some space, or choose another --out" if full else "choose another --out, or make it writable"
    return OutputError(f"a place to write at {target}", str(error), remedy)
