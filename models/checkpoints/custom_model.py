"""A custom model's Python file, run in a process of its own: what comes back is a ``.pt2`` file."""

import json
import os
import subprocess  # nosec B404
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from signal import Signals

from attendant.errors import ArtefactError, error_from_json
from attendant.temporary_folders import temporary_folder
from models.checkpoints.place import OWN_SUFFIX

PROGRAM_NAME = "model.pt2"
_PROCESS = Path(__file__).with_name("custom_process.py")
_STANDARD_ERROR = 2
SILENCE_S = 60.0
"""After which we say that a file still runs."""


@contextmanager
def traced(name: str) -> Iterator[str]:
    """What to load in the place of a name: of a Python file the ``.pt2`` that it gives, as long as the caller needs it.

    Args:
        name: as the user typed it; what is no Python file stays as it is.

    Raises:
        As :func:`trace_custom_model`.
    """
    if not (name.endswith(OWN_SUFFIX) and Path(name).is_file()):
        yield name
        return
    with temporary_folder() as folder:
        yield str(trace_custom_model(Path(name), Path(folder)))


def trace_custom_model(path: Path, folder: Path) -> Path:
    """Run a file's ``model()``, and trace the module that it returns.

    Args:
        path: the file; its own folder and the working directory are where its imports are found.
        folder: for ``model.pt2``, which is the same bytes for the same model.

    Returns:
        The ``.pt2`` file, with the contract in it.

    Raises:
        ArtefactError: the file cannot be run, has no ``model()``, or its module fails on the contract's shapes.
        ConfigError: the contract is not whole, or not what the module does.
        ExportError: torch.export cannot trace the module.
    """
    environment = {"PYTHONWARNINGS": "ignore", **os.environ}  # noqa: TID251  (a process launcher)
    command = [sys.executable, "-P", str(_PROCESS), str(path), str(folder)]
    program, failure = folder / PROGRAM_NAME, folder / "error.json"
    for former in (program, failure):
        former.unlink(missing_ok=True)
    sys.stderr.flush()
    # What the file prints goes where it disturbs no output of ours.
    with subprocess.Popen(command, stdout=_STANDARD_ERROR, env=environment) as process:  # nosec B603
        try:
            status = _wait(process, path)
        finally:
            process.kill()
    if failure.exists():
        raise error_from_json(json.loads(failure.read_text(encoding="utf-8")))
    if status or not program.exists():
        ending = f"status {status}" if status >= 0 else Signals(-status).name
        raise ArtefactError(f"a process that runs {path} to end well", ending, "see what it printed above")
    return program


def _wait(process: subprocess.Popen[bytes], path: Path) -> int:
    for waited_s in count(SILENCE_S, SILENCE_S):
        try:
            return process.wait(SILENCE_S)
        except subprocess.TimeoutExpired:
            sys.stderr.write(
                f"{path} has run for {waited_s:g} s: its model(), forward() or their trace; Ctrl-C ends it\n"
            )
    raise AssertionError("count() has no end")
