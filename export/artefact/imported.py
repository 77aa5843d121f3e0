"""A Hugging Face folder where a checkpoint is wanted: it is imported first, beside the artefact."""

import sys
from pathlib import Path
from typing import Any

from attendant.records import read_json
from models.checkpoints.file_names import CONFIG_NAME
from models.checkpoints.place import gguf_in, is_hugging_face, place_of


def imported_name(name: str, out: Path) -> str:
    """What is to be exported: the name, or the folder of the checkpoint that another library's becomes.

    Nothing is done where that checkpoint is there, and no file of the Hugging Face folder has changed since.

    Args:
        name: as :func:`models.checkpoints.resolve.checkpoint_named` takes it, or a Hugging Face folder.
        out: the artefact's folder; the checkpoint's is called after it.

    Raises:
        As :func:`models.checkpoints.importers.importing.import_checkpoint`.
    """
    source = place_of(name)
    if source is None or not is_hugging_face(source):
        return name
    folder = out.with_name(f"{out.resolve().name}-checkpoint")
    state, place = _state(source), folder.with_name(f"{folder.name}.json")
    if _read(place) != state or not (folder / CONFIG_NAME).is_file():
        from json import dumps

        from models.checkpoints.importers.importing import import_checkpoint  # torch: seconds

        kind = "Hugging Face folder" if gguf_in(source) is None else "GGUF file"
        sys.stderr.write(f"{name} is a {kind}: it is imported to {folder} first\n")
        done = import_checkpoint(source, folder)
        sys.stderr.writelines(f"{note}\n" for note in done.notes)
        place.write_text(dumps(state), encoding="utf-8")
    return str(folder)


def _state(source: Path) -> dict[str, Any]:
    files = [source] if source.is_file() else sorted(path for path in source.iterdir() if path.is_file())
    sizes = {path.name: [path.stat().st_size, path.stat().st_mtime_ns] for path in files}
    return {"source": str(source.resolve()), "files": sizes}


def _read(path: Path) -> Any:
    try:
        return read_json(path)
    except (OSError, ValueError):
        return None
