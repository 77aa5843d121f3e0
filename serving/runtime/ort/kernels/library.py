"""Attendant's own operators for ONNX Runtime, compiled on the machine that runs them, once.

    *.c ── the machine's C compiler ──► ~/.cache/attendant/kernels/<hash>.so

They are for x86 processors with AVX2, and use AVX-512 with VNNI, or VNNI alone, where there is some. On another, or
where there is no compiler, graphs run in the form that needs none: ONNX Runtime's own operators.
"""

import ctypes
import fcntl
import hashlib
import logging
import os
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

from serving.runtime.processor import has_instructions

FORM = "attendant-cpu"
"""The form of a graph that needs them (:attr:`attendant.manifest.Lowered.target`)."""
INSTRUCTIONS: dict[str, frozenset[str]] = {
    "avx512-vnni": frozenset({"avx512f", "avx512bw", "avx512vl", "avx512_vnni"}),
    "avx2-vnni": frozenset({"avx2", "fma", "avx_vnni"}),
    "avx2": frozenset({"avx2", "fma"}),
}
"""What a processor must have for each kind of vectors (vectors.h), the fastest first."""
COMPILERS = ("cc", "gcc", "clang")
_SOURCES = Path(__file__).parent
_FLAGS = ("-O3", "-std=c11", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread", "-lm")
WORKER_S, AHEAD_S = 20.0, 120.0
"""How long compiling may take as a model is loaded, which others wait for, and before any is."""
_PAUSE_S = 3600.0
_SEAL_BYTES = hashlib.sha256().digest_size
_LOG = logging.getLogger(__name__)


def vectors() -> tuple[str, ...]:
    """The kinds of vectors that this processor has, the fastest first."""
    return tuple(kind for kind, wanted in INSTRUCTIONS.items() if has_instructions(wanted))


@cache
def kernels(kind: str | None = None, say: Callable[[str], object] | None = None) -> Path | None:
    """The library of operators; None where this machine cannot make or use one, and the log says why.

    Args:
        kind: of vectors; the fastest if not given.
        say: of who compiles ahead of others: is told that it begins. Else it is for a model that is being loaded.
    """
    kind = kind or next(iter(vectors()), None)
    if kind is None:
        return None
    try:
        library = _compile(_SOURCES, cache_folder("kernels"), INSTRUCTIONS[kind], say)
        ctypes.CDLL(str(library))  # a file system may allow no programs
    except (OSError, subprocess.SubprocessError) as error:
        _LOG.warning("no kernels of our own, products in 4 and 8 bits are slower: %s", error)
        return None
    return library


def cache_folder(name: str) -> Path:
    """Where they lie, or what else nobody but this user may write.

    Args:
        name: of the folder among those of Attendant.

    Raises:
        OSError: it cannot be made, or others can write there or move it away: what lies in it is run.
    """
    wanted = os.environ.get("XDG_CACHE_HOME", "")  # noqa: TID251  (the user's own word on where such files lie)
    try:
        home = Path(wanted) if Path(wanted).is_absolute() else Path.home() / ".cache"
    except RuntimeError:
        raise FileNotFoundError("no folder to keep them in: set XDG_CACHE_HOME, or HOME") from None
    folder = home / "attendant" / name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = folder.resolve()  # what is looked at is what is used: of a link on the way somebody else may be the owner
    for place in (folder, *folder.parents):
        status = place.stat()
        allowed, owners = 0, {os.geteuid()}
        if place != folder:  # one above may be like /tmp, or of its user's own group, as many systems make it
            everybody = stat.S_IWGRP | stat.S_IWOTH
            allowed = everybody if status.st_mode & stat.S_ISVTX else stat.S_IWGRP * (status.st_gid == os.getegid())
            owners |= {0}
        if status.st_uid not in owners or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) & ~allowed:
            raise PermissionError(
                f"others can change {place}: `chmod 700` it, or set XDG_CACHE_HOME to a folder of yours"
            )
    return folder


def _compile(sources: Path, folder: Path, instructions: frozenset[str], say: Callable[[str], object] | None) -> Path:
    """The library, which one process makes as others wait for it."""
    compiler = next((path for name in COMPILERS if (path := shutil.which(name))), None)
    if compiler is None:
        raise FileNotFoundError(f"no C compiler ({', '.join(COMPILERS)}) to make them with")
    files = sorted(sources.glob("*.[ch]"))
    flags = [*_FLAGS, *sorted(f"-m{name.replace('_', '')}" for name in instructions)]
    said = b"\0".join((os.fsencode(compiler), *map(str.encode, flags), *(file.read_bytes() for file in files)))
    library = folder / f"{hashlib.sha256(said).hexdigest()[:16]}.so"
    if _is_whole(library):
        return library
    failed, slow = library.with_suffix(".late"), library.with_suffix(".slow")
    longest_s = WORKER_S if say is None else AHEAD_S
    with _open_lock(library.with_suffix(".lock")) as lock:
        try:
            _acquire(lock, slow if say is None else None, time.monotonic() + longest_s)
        except TimeoutError:
            _note(slow)
            raise
        if _is_whole(library):
            return library
        _require_none(failed)
        slow.unlink(missing_ok=True)
        if say is not None:
            say("compiling operators for this processor, once\n")
        scratch = library.with_suffix(".part")
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        made = scratch / library.name
        words = [compiler, "-o", str(made), *(str(file) for file in files if file.suffix == ".c"), *flags]
        try:
            _run(words, longest_s, lock, scratch, is_ahead=say is not None)
        except subprocess.SubprocessError:
            _note(failed)
            raise
        with made.open("r+b") as written:
            written.write(hashlib.sha256(written.read()).digest())
            written.flush()
            os.fsync(written.fileno())
        made.replace(library)
        shutil.rmtree(scratch)
        for note in (failed, slow):
            note.unlink(missing_ok=True)
    return library


def _is_whole(library: Path) -> bool:
    """Whether it ends with the hash of what stands before: one of which a part is missing ends who runs it."""
    try:
        if not stat.S_ISREG(library.lstat().st_mode):
            return False
        content = library.read_bytes()
    except FileNotFoundError:
        return False
    return hashlib.sha256(content[:-_SEAL_BYTES]).digest() == content[-_SEAL_BYTES:]


def _open_lock(path: Path) -> IO[bytes]:
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise FileExistsError(f"{path} is no file; remove it")
    return os.fdopen(number, "r+b")


def _run(words: list[str], longest_s: float, lock: IO[bytes], scratch: Path, *, is_ahead: bool) -> None:
    env = {**os.environ, "TMPDIR": str(scratch)}  # noqa: TID251  (a compiler's own variables)
    held = [lock.fileno()]  # also by a compiler that outlives us
    # That of a worker ends with the server's group; ahead of all there is none yet.
    # And what it says is not read to its end, which may be that of a server that a compiler has started.
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(
        words,
        stdin=nowhere,
        stdout=nowhere,
        stderr=nowhere,
        pass_fds=held,
        env=env,
        start_new_session=is_ahead,
    ) as process:
        try:
            process.wait(longest_s)
        except BaseException:
            if is_ahead:
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words)


def _acquire(lock: IO[bytes], slow: Path | None, end_s: float) -> None:
    """Wait for a lock, though who holds it may stand still: of that, who waited in vain says so to the next."""
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if slow is not None:
                _require_none(slow)
            if time.monotonic() > end_s:
                raise TimeoutError("another process takes long to make them") from None
            time.sleep(0.1)


def _note(failure: Path) -> None:
    with suppress(OSError):  # the disk may be full
        failure.touch()


def _require_none(failure: Path) -> None:
    """What failed is not tried again for a while: each start of a model would wait for it."""
    with suppress(FileNotFoundError):
        if 0 <= time.time() - failure.stat().st_mtime < _PAUSE_S:  # one of the future is of a clock set right since
            raise OSError(f"making them failed lately, or takes long; remove {failure} to try again")
