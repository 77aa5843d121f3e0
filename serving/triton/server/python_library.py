"""The libpython that a Python-backend stub is linked against, and where the loader can find it.

Asked of the loader itself: with LD_TRACE_LOADED_OBJECTS it lists what a program would load, and runs nothing
(ld.so(8); this is what ldd does).
"""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attendant.errors import MachineError
from serving.triton.server.environment import loader_trace_environment

NEEDED = re.compile(r"(?P<name>libpython(?P<version>\d)\S*) => (?P<place>not found|\S+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class NeededLibrary:
    """A libpython that a stub needs, and where the loader finds it unaided, if it does."""

    name: str
    found_at: Path | None


def needed_library(trace: str) -> NeededLibrary | None:
    """Read the libpython out of the loader's list; None when the stub needs none."""
    match = NEEDED.search(trace)
    if match is None:
        return None
    place = match["place"]
    return NeededLibrary(name=match["name"], found_at=None if place == "not found" else Path(place))


def library_directory(needed: NeededLibrary, candidates: Sequence[Path], python: str) -> Path | None:
    """Choose the directory that LD_LIBRARY_PATH must name.

    Args:
        needed: what the stub needs.
        candidates: where to look first, the running interpreter's own directories.
        python: the version as ``3.11``, for the remedy.

    Returns:
        The first candidate that has the library; None when the loader needs no help.

    Raises:
        MachineError: neither a candidate nor the loader's own paths have it.
    """
    own = next((directory for directory in candidates if (directory / needed.name).exists()), None)
    if own is None and needed.found_at is None:
        remedy = f"run `apt-get install libpython{python}`, or use a Python built with --enable-shared"
        looked = ", ".join(map(str, candidates))
        raise MachineError(f"{needed.name} for Triton's Python backend", f"none in {looked} or ld.so's paths", remedy)
    return own


def loader_trace(program: Path) -> str:
    """List the libraries that the loader would give a program, without running it."""
    environment = loader_trace_environment()
    return subprocess.run([str(program)], env=environment, capture_output=True, text=True, check=False).stdout
