"""The models of a Triton repository, whatever lies beside them: links to nowhere, folders that cannot be read."""

import re
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

from attendant.errors import ArtefactError
from attendant.records import read_file, version_of
from serving.triton.repository.pbtxt import config_from_pbtxt

CONFIG = "config.pbtxt"
MOST_CONFIG_BYTES = 1 << 24
MOST_READ_BYTES = 1 << 20
"""Of a config.pbtxt that is read here: hostile ones take six seconds for it, and long texts need more seldom."""
_TEXT = re.compile(rb"""\#[^\n]*+|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"|'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'""", re.DOTALL)
_NUMBER = re.compile("[ \t\n\v\f\r]*([+-]?[0-9]+)")


def model_folders(repository: Path) -> dict[str, Path]:
    """Name → folder of each entry with a ``config.pbtxt``, or that does not let itself be asked for one.

    Nothing where there is no such repository. pathlib's ``glob`` ends at the first entry that fails.
    """
    try:
        names = sorted(entry.name for entry in repository.iterdir())
    except OSError:
        return {}
    return {name: repository / name for name in names if _may_have_config(repository / name)}


def read_config(folder: Path) -> Any | None:
    """What a model's ``config.pbtxt`` says; None where it is none, which Triton says itself, or longer than is read.

    Raises:
        OSError: it cannot be read.
    """
    status = (folder / CONFIG).stat()
    if status.st_size > MOST_READ_BYTES:
        return None
    return _config_at(folder / CONFIG, version_of(status))


def has_many_fields(folder: Path) -> bool:
    """Whether a model's ``config.pbtxt`` is so long, without its texts: tritonserver 2.51 copies each field many times.

    Raises:
        OSError: it cannot be read, or is longer than tritonserver may have.
    """
    status = (folder / CONFIG).stat()
    if status.st_size <= MOST_READ_BYTES:
        return False
    return _bytes_beside_texts(folder / CONFIG, version_of(status)) > MOST_READ_BYTES


@lru_cache(maxsize=256)
def _bytes_beside_texts(path: Path, _: object) -> int:
    data = read_file(path, MOST_CONFIG_BYTES)
    left = len(data)
    for number, text in enumerate(_TEXT.finditer(data)):
        left -= text.end() - text.start() - 1
        if number > MOST_READ_BYTES:
            break
    return left


@lru_cache(maxsize=256)
def _config_at(path: Path, _: object) -> Any | None:
    try:
        return config_from_pbtxt(read_file(path, MOST_READ_BYTES).decode(errors="replace"))
    except ArtefactError:
        return None


def number_of(name: str) -> int | None:
    """The version that Triton reads in the name of a folder, as C's ``stoll`` does: 2 in ``2x``; None for no number."""
    found = _NUMBER.match(name)
    return None if found is None or (name[0] == "0" and len(name) > 1) else int(found[1][:21])


def served_versions(folder: Path, policy: Any) -> list[int]:
    """The versions of a model that Triton loads by a ``version_policy``, oldest first (core, ``VersionsToLoad``).

    One that is named twice it loads though it is not there.
    """
    numbers = {number_of(path.name) for path in folder.iterdir() if path.is_dir()}
    present = sorted(number for number in numbers if number is not None)
    if policy.HasField("specific"):
        times = Counter(policy.specific.versions)
        return sorted(version for version in times if version in numbers or times[version] > 1)
    return present if policy.HasField("all") else present[-max(1, policy.latest.num_versions) :]


def _may_have_config(folder: Path) -> bool:
    try:
        (folder / CONFIG).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # what serves it says why not
    return True
