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
        library = _compile(_SOURCES, cache_folder(), INSTRUCTIONS[kind], say)
        ctypes.CDLL(str(library))  # a file system may allow no programs
    except (OSError, subprocess.SubprocessError) as error:
        _LOG.warning("no kernels of our own, products in 4 and 8 bits are slower: %s", error)
        return None
    return library


def cache_folder() -> Path:
    """Where they lie, of nobody but this user.

    Raises:
        OSError: it cannot be made, or others can write there or move it away: what lies in it is run.
    """
    wanted = os.environ.get("XDG_CACHE_HOME", "")  # noqa: TID251  (the user's own word on where such files lie)
    try:
        home = Path(wanted) if Path(wanted).is_absolute() else Path.home() / ".cache"
    except RuntimeError:
        raise FileNotFoundError("no folder to keep them in: set XDG_CACHE_HOME, or HOME") from None
    folder = home / "attendant" / "kernels"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for place in (folder, *folder.resolve().parents):
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
    said = b"\0".join((compiler.encode(), *map(str.encode, flags), *(file.read_bytes() for file in files)))
    library = folder / f"{hashlib.sha256(said).hexdigest()[:16]}.so"
    if library.exists():
        return library
    late, end_s = library.with_suffix(".late"), time.monotonic() + (WORKER_S if say is None else AHEAD_S)
    with library.with_suffix(".lock").open("a") as lock:
        try:
            _acquire(lock, late, end_s)
            if not library.exists():
                _require_none(late)
                if say is not None:
                    say("compiling operators for this processor, once\n")
                scratch = library.with_suffix(".part")
                shutil.rmtree(scratch, ignore_errors=True)
                scratch.mkdir()
                made = scratch / library.name
                words = [compiler, "-o", str(made), *(str(file) for file in files if file.suffix == ".c"), *flags]
                _run(words, end_s, lock, scratch, is_ahead=say is not None)
                with made.open("rb") as written:
                    os.fsync(written.fileno())
                made.replace(library)
                shutil.rmtree(scratch)
                late.unlink(missing_ok=True)
        except (TimeoutError, subprocess.SubprocessError):
            with suppress(OSError):  # the disk may be full
                late.touch()
            raise
    return library


def _run(words: list[str], end_s: float, lock: IO[str], scratch: Path, *, is_ahead: bool) -> None:
    env = {**os.environ, "TMPDIR": str(scratch)}  # noqa: TID251  (a compiler's own variables)
    held = [lock.fileno()]  # also by a compiler that outlives us
    # That of a worker ends with the server's group; ahead of all there is none yet.
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=held, env=env, start_new_session=is_ahead
    ) as process:
        try:
            output, _ = process.communicate(timeout=end_s - time.monotonic())
        except BaseException:
            if is_ahead:
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words, output)


def _acquire(lock: IO[str], late: Path, end_s: float) -> None:
    """Wait for a lock, though who holds it may stand still."""
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            _require_none(late)
            if time.monotonic() > end_s:
                raise TimeoutError("another process takes long to make them") from None
            time.sleep(0.1)


def _require_none(late: Path) -> None:
    """Compiling that failed is not tried again for a while: each start of a model would wait for it."""
    with suppress(FileNotFoundError):
        if time.time() - late.stat().st_mtime < _PAUSE_S:
            raise OSError(f"making them failed lately; remove {late} to try again")
