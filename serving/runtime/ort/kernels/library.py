"""Attendant's own operators for ONNX Runtime, compiled on the machine that runs them, once.

    *.c ── the machine's C compiler ──► ~/.cache/attendant/kernels/<hash>.so

They are for processors with AVX-512 and VNNI (Intel since Ice Lake, AMD since Zen 4). On another, or where there is no
compiler, graphs run in the form that needs none: ONNX Runtime's own operators, which are slower and as right.
"""

import ctypes
import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from serving.runtime.processor import has_instructions

FORM = "attendant-cpu"
"""The form of a graph that needs them (:attr:`attendant.manifest.Lowered.target`)."""
INSTRUCTIONS = frozenset({"avx512f", "avx512bw", "avx512vl", "avx512_vnni"})
COMPILERS = ("cc", "gcc", "clang")
_SOURCES = Path(__file__).parent
_FLAGS = ("-O3", "-std=c11", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread", "-lm")
_LONGEST_S = 60
_LOG = logging.getLogger(__name__)


@cache
def kernels() -> Path | None:
    """The library of operators; none where this machine cannot make or use one, and the log says why."""
    if not has_instructions(INSTRUCTIONS):
        return None
    try:
        library = _compile(_SOURCES, cache_folder())
        ctypes.CDLL(str(library))  # a file system may allow no programs
    except (OSError, subprocess.SubprocessError) as error:
        _LOG.warning("no kernels of our own, products in 4 and 8 bits are slower: %s", error)
        return None
    return library


def cache_folder() -> Path:
    """Where they lie, of nobody but this user.

    Raises:
        OSError: it cannot be made, or others can write there: what lies in it is run.
    """
    place = os.environ.get("XDG_CACHE_HOME")  # noqa: TID251  (the user's own word on where such files lie)
    folder = Path(place or Path.home() / ".cache") / "attendant" / "kernels"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise PermissionError(f"others can write to {folder}: make it yours alone, by `chmod 700`")
    return folder


def _compile(sources: Path, folder: Path) -> Path:
    compiler = next((path for name in COMPILERS if (path := shutil.which(name))), None)
    if compiler is None:
        raise FileNotFoundError(f"no C compiler ({', '.join(COMPILERS)}) to make them with")
    files = sorted(sources.glob("*.[ch]"))
    said = b"\0".join((compiler.encode(), *map(str.encode, _FLAGS), *(file.read_bytes() for file in files)))
    library = folder / f"{hashlib.sha256(said).hexdigest()[:16]}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch) / library.name
            words = [compiler, "-o", str(made), *(str(file) for file in files if file.suffix == ".c"), *_FLAGS]
            subprocess.run(words, check=True, capture_output=True, timeout=_LONGEST_S)
            made.replace(library)
    return library
