"""The files beside the weights that serving needs: copied into an artefact, and tried before anything is exported."""

import shutil
from pathlib import Path

from attendant.errors import ArtefactError
from attendant.tokenization import load_tokenizer
from attendant.tokenizer import MARIAN_FILES, TOKENIZER_NAME
from models.checkpoints.store import Checkpoint


def copy_companions(checkpoint: Checkpoint, folder: Path) -> None:
    """Copy a checkpoint's tokenizer and chat template.

    Args:
        checkpoint: that has them.
        folder: the artefact.

    Raises:
        ArtefactError: one cannot be read, or the tokenizer is cut short, damaged or incomplete.
    """
    for companion in checkpoint.companions():
        shutil.copyfile(companion, folder / companion.name)
    if any((folder / name).exists() for name in (TOKENIZER_NAME, *MARIAN_FILES)):
        load_tokenizer(folder, checkpoint.details.get("tokenizer")).decode([0])
    for path in folder.glob("*.jinja"):
        try:
            path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ArtefactError(f"a text in {path.name}", str(error), "copy the file again") from error
