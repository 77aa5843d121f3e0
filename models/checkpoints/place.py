"""What a name means that a user types: a folder, a file of their own, a shipped checkpoint, or else a preset."""

from pathlib import Path

from models.checkpoints.file_names import CONFIG_NAME

PRETRAINED = Path(__file__).parent.parent / "pretrained"
OWN_SUFFIX = ".py"


def shipped_names() -> list[str]:
    """The checkpoints that come with this repository."""
    return sorted(folder.name for folder in PRETRAINED.iterdir() if (folder / CONFIG_NAME).is_file())


def place_of(name: str) -> Path | None:
    """The checkpoint folder or the Python file that a name stands for; none where it can only be a preset's."""
    path = Path(name)
    try:
        if path.exists() and (path.is_dir() or name.endswith(OWN_SUFFIX)):
            return path
    except OSError:  # longer than any path can be
        pass
    return PRETRAINED / name if name in shipped_names() else None
