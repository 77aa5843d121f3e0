"""The models of a Triton repository, whatever lies beside them: links to nowhere, folders that cannot be read."""

from pathlib import Path

CONFIG = "config.pbtxt"


def model_folders(repository: Path) -> dict[str, Path]:
    """Name → folder of each entry with a ``config.pbtxt``, or that does not let itself be asked for one.

    Nothing where there is no such repository. pathlib's ``glob`` ends at the first entry that fails.
    """
    try:
        names = sorted(entry.name for entry in repository.iterdir())
    except OSError:
        return {}
    return {name: repository / name for name in names if _may_have_config(repository / name)}


def _may_have_config(folder: Path) -> bool:
    try:
        (folder / CONFIG).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # what serves it says why not
    return True
