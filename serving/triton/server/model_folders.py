"""The models to serve, which must lie in the repository before anything is started.

tritonserver 2.51 ends, or waits for ever, where one of them has a config.pbtxt or labels.txt that is no file, a version
that is empty, a folder whose name is a number and no version, or a name that is more to a shell. Such a model is not
handed to it, and all others are served.
"""

import os
import re
import stat
import sys
from collections.abc import Collection
from pathlib import Path

from attendant.errors import ArtefactError
from attendant.printable import printable
from serving.triton.repository.engine_check import find_unfit
from serving.triton.repository.entries import CONFIG, model_folders
from serving.triton.server.settings import ServerSettings
from serving.triton.server.workspace import is_plain

LABELS = "labels.txt"
MOST_CONFIG_BYTES = 1 << 24
_NUMBER = re.compile("-?[0-9]+")
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


def _shown(name: str) -> str:
    shown = os.fsencode(name).decode(errors="backslashreplace")
    return shown if shown.isprintable() else repr(shown)


def unfit(folder: Path) -> str:
    """Why tritonserver is not to be given this model; empty if it may have it."""
    if os.fsencode(folder.name).decode(errors="replace") != folder.name:
        return "its name is not UTF-8"
    if not is_plain(Path("".join(filter(str.isascii, folder.name)))):  # a shell starts its worker
        return "its name has characters that a shell reads otherwise"
    try:
        if not _is_file(folder / CONFIG) or (folder / CONFIG).stat().st_size > MOST_CONFIG_BYTES:
            return f"its {CONFIG} is no file of at most {MOST_CONFIG_BYTES} bytes"
        for entry in folder.iterdir():
            if _NUMBER.fullmatch(entry.name) and not 0 <= int(entry.name[:20]) <= _LARGEST_VERSION:
                return f"the folder {entry.name[:40]!r} in it is no version"
            is_version = entry.name.isascii() and entry.name.isdecimal()
            inside = list(entry.iterdir()) if is_version else []
            if is_version and not inside:
                return f"its version {entry.name} is empty"
            for one in (entry, *inside):
                if not _is_file(one) and (one.name == LABELS or not one.is_dir()):
                    return f"{one.name[:40]!r} in it is no file"
    except OSError as error:
        return str(error)
    return ""


def _is_file(path: Path) -> bool:
    return stat.S_ISREG(path.stat().st_mode)
