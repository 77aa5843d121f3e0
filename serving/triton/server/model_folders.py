"""The models to serve, which must lie in the repository before anything is started.

tritonserver 2.51 ends, or waits for ever, where one of them has a config.pbtxt that is no file or names what is none, a
version that is empty or lacks its Python file, a folder whose name is a number and no version, or a name that is more
to a shell. Such a model is not handed to it, and all others are served.
"""

import os
import shlex
import stat
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from attendant.errors import ArtefactError
from attendant.printable import printable
from serving.triton.repository.engine_check import find_unfit
from serving.triton.repository.entries import (
    CONFIG,
    MOST_CONFIG_BYTES,
    MOST_READ_BYTES,
    has_many_fields,
    model_folders,
    number_of,
    read_config,
    served_versions,
)
from serving.triton.server.settings import ServerSettings
from serving.triton.server.workspace import is_plain

PYTHON_FILE = "model.py"
_LARGEST_VERSION = 2**31 - 1


def find_models(settings: ServerSettings, before: Collection[str] = ()) -> tuple[str, ...]:
    """The names of those that are to be served: all that have a config.pbtxt, or those that were chosen.

    Args:
        settings: of the server.
        before: what was served before: what is gone since keeps no other from being served.

    Raises:
        ArtefactError: the repository has no model, or lacks one that was requested.
        AttendantError: none of them can be served because of its engines.
    """
    folders = model_folders(settings.repository)
    engines = find_unfit(settings.repository, settings.models)
    reasons = {name: engines.get(name) or unfit(folder) for name, folder in folders.items()}
    left_out = {name: reason for name, reason in reasons.items() if reason}
    present = folders.keys() - left_out.keys()
    missing = set(settings.models or before) - present
    served = present & set(settings.models) if settings.models else present
    if (missing and not before) or not served:
        expected = f"models {sorted(missing)}" if missing else "one model at least"
        beside = "".join(f"; {_shown(name)}: {found}" for name, found in left_out.items())
        found = f"{sorted(present) or 'none'} in {Path(settings.repository)}{beside}"
        raise ArtefactError(expected, found, "lay it out with `attendant repository`")
    for name in sorted(missing if settings.models else missing | left_out.keys()):
        reason = left_out.get(name, f"it has no {CONFIG} any more")
        sys.stderr.write(f"not served: {_shown(name)}: {printable(reason)}\n")
    return tuple(sorted(served))


def awaited_models(settings: ServerSettings) -> set[str]:
    """The names of those that are to be served once their folders are fit."""
    folders = model_folders(settings.repository)
    chosen = folders.keys() & set(settings.models) if settings.models else folders.keys()
    return {name for name in chosen if not _unfit_name(name) and unfit(folders[name])}


def _shown(name: str) -> str:
    shown = os.fsencode(name).decode(errors="backslashreplace")
    return shown if shown.isprintable() else repr(shown)


def unfit(folder: Path) -> str:
    """Why tritonserver is not to be given this model; empty if it may have it."""
    if reason := _unfit_name(folder.name):
        return reason
    try:
        status = (folder / CONFIG).stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_CONFIG_BYTES:
            return f"its {CONFIG} is no file of at most {MOST_CONFIG_BYTES} bytes"
        for entry in folder.iterdir():
            if entry.is_dir() and not 0 <= (number_of(entry.name) or 0) <= _LARGEST_VERSION:
                return f"the folder {entry.name[:40]!r} in it is no version"
            is_version = entry.name.isascii() and entry.name.isdecimal()
            inside = list(entry.iterdir()) if is_version else []
            if is_version and not inside:
                return f"its version {entry.name} is empty"
            for one in (entry, *inside):
                if not _is_file(one) and not one.is_dir():
                    return f"{one.name[:40]!r} in it is no file"
        if has_many_fields(folder):
            return f"its {CONFIG} has more than {MOST_READ_BYTES} bytes beside its texts"
        if (config := read_config(folder)) is None:
            return ""
        for named in _python_files(folder, config):
            if not os.path.isfile(f"{folder}/{named}"):  # noqa: PTH113  (pathlib takes "model.py/" for "model.py")
                return f"{named[:80]!r} is no file in it"
            if shlex.quote(named) != named:
                return f"a shell reads the name {named[:80]!r} otherwise"
        for named in filter(None, _data_files(config)):
            with suppress(FileNotFoundError):  # which Triton says itself
                if not _is_file(Path(f"{folder}/{named}")):
                    return f"{named[:80]!r}, which its {CONFIG} names, is no file"
    except (OSError, ValueError) as error:  # a name with a NUL
        return str(error)
    return ""


def _unfit_name(name: str) -> str:
    if os.fsencode(name).decode(errors="replace") != name:
        return "its name is not UTF-8"
    if not is_plain(Path("".join(filter(str.isascii, name)))):  # a shell starts its worker
        return "its name has characters that a shell reads otherwise"
    return ""


def _python_files(folder: Path, config: Any) -> Iterator[str]:
    """What Triton starts of a Python model: without it, it neither loads the model nor fails to."""
    named = config.default_model_filename
    is_by_file = not config.platform and any(folder.glob(f"*/{PYTHON_FILE}"))
    guessed = not config.backend and (named == PYTHON_FILE or is_by_file)
    if config.backend == "python" or guessed:
        for version in served_versions(folder, config.version_policy):
            yield f"{version}/{named or PYTHON_FILE}"


def _data_files(config: Any) -> Iterator[str]:
    """What Triton itself reads as it loads a model: of a pipe it waits for ever, of a folder it ends."""
    for tensor in config.output:
        yield tensor.label_filename
    for warm_up in config.model_warmup:
        for value in warm_up.inputs.values():
            yield value.input_data_file and f"warmup/{value.input_data_file}"
    for state in config.sequence_batching.state:
        for first in state.initial_state:
            yield first.data_file and f"initial_state/{first.data_file}"


def _is_file(path: Path) -> bool:
    return stat.S_ISREG(path.stat().st_mode)
