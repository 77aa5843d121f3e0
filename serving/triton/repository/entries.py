"""The models of a Triton repository, whatever lies beside them: links to nowhere, folders that cannot be read."""

import re
from pathlib import Path
from typing import Any

CONFIG = "config.pbtxt"
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


def number_of(name: str) -> int | None:
    """The version that Triton reads in the name of a folder, as C's ``stoll`` does: 2 in ``2x``; None for no number."""
    found = _NUMBER.match(name)
    return None if found is None or (name[0] == "0" and len(name) > 1) else int(found[1][:21])


def served_versions(folder: Path, policy: Any) -> list[int]:
    """The versions of a model that Triton loads by a ``version_policy``, oldest first (core, ``VersionsToLoad``)."""
    numbers = {number_of(path.name) for path in folder.iterdir() if path.is_dir()}
    present = sorted(number for number in numbers if number is not None)
    if policy.HasField("specific"):
        return [version for version in present if version in policy.specific.versions]
    return present if policy.HasField("all") else present[-max(1, policy.latest.num_versions) :]


def _may_have_config(folder: Path) -> bool:
    try:
        (folder / CONFIG).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # what serves it says why not
    return True
