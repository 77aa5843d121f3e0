"""Write a checkpoint folder in one step, and only over a checkpoint."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attendant.errors import OutputError
from attendant.folders import replaced_folder
from models.checkpoints.file_names import COMPANIONS, CONFIG_NAME, WEIGHTS_NAME

CARD_NAME = "README.md"
OURS = frozenset({CONFIG_NAME, WEIGHTS_NAME, CARD_NAME, *COMPANIONS})


@contextmanager
def replaced_checkpoint(folder: Path) -> Iterator[Path]:
    """A new folder that takes the place of the given one when the block ends without an error.

    Raises:
        OutputError: the folder holds other things than a checkpoint's, or cannot be written.
    """
    strangers = sorted(path.name for path in folder.iterdir() if path.name not in OURS) if folder.is_dir() else []
    if strangers:
        raise OutputError(
            f"only a checkpoint's files in {folder}",
            f"{strangers[:3]}",
            "choose a new folder or a checkpoint's own with --out",
        )
    with replaced_folder(folder) as staged:
        yield staged
