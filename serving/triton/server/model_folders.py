"""The models to serve, which must lie in the repository before anything is started.

tritonserver 2.51 ends, or waits for ever, where one of them has a config.pbtxt that is no file, or a folder whose name
is a number and no version. Such a model is not handed to it, and all others are served.
"""

import os
import re
import stat
import sys
from pathlib import Path

from attendant.errors import ArtefactError
from serving.triton.server.settings import ServerSettings

CONFIG = "config.pbtxt"
MOST_CONFIG_BYTES = 1 << 24
_NUMBER = re.compile("-?[0-9]+")
_LARGEST_VERSION = 2**31 - 1


def find_models(settings: ServerSettings) -> tuple[str, ...]:
    """The names of those that are to be served: all that have a config.pbtxt, or those that were chosen.

    Raises:
        ArtefactError: the repository has no model, or lacks one that was requested.
    """
    folders = {path.parent.name: path.parent for path in settings.repository.glob(f"*/{CONFIG}")}
    unfit = {name: found for name, folder in sorted(folders.items()) if (found := _unfit(folder))}
    present = folders.keys() - unfit.keys()
    missing = set(settings.models) - present
    if missing or not present:
        expected = f"models {sorted(missing)}" if missing else "one model at least"
        beside = "".join(f"; {_shown(name)}: {found}" for name, found in unfit.items())
        found = f"{sorted(present) or 'none'} in {Path(settings.repository)}{beside}"
        raise ArtefactError(expected, found, "lay it out with `attendant repository`")
    for name in unfit.keys() - set(settings.models):
        sys.stderr.write(f"not served: {_shown(name)}: {unfit[name]}\n")
    return tuple(sorted(settings.models or present))


def _shown(name: str) -> str:
    return os.fsencode(name).decode(errors="backslashreplace")


def _unfit(folder: Path) -> str:
    if _shown(folder.name) != folder.name:
        return "its name is not UTF-8"
    try:
        found = (folder / CONFIG).stat()
        names = [path.name for path in folder.iterdir()]
    except OSError as error:
        return str(error)
    if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_CONFIG_BYTES:
        return f"its {CONFIG} is no file of at most {MOST_CONFIG_BYTES} bytes"
    wrong = [name for name in names if _NUMBER.fullmatch(name) and not 0 <= int(name[:20]) <= _LARGEST_VERSION]
    return f"the folder {wrong[0][:40]!r} in it is no version" if wrong else ""
