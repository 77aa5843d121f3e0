"""A Hugging Face folder where a checkpoint is wanted: it is imported first, and once."""

import json
import sys
from pathlib import Path
from typing import Any

from attendant.records import read_json
from export.artefact.fingerprint import ROOT, hash_code_below, versions
from export.artefact.remembered_hashes import remembered_sha256
from models.checkpoints.place import GGUF_SUFFIX, gguf_in, is_hugging_face, place_of

_READ = {".json", ".safetensors", GGUF_SUFFIX, ".model", ".jinja", ".txt", ".spm"}
"""Endings of the files of a Hugging Face folder that an import reads."""


def imported_name(name: str, out: Path) -> str:
    """What is to be exported: the name, or the folder of the checkpoint that another library's becomes.

    Args:
        name: as :func:`models.checkpoints.resolve.checkpoint_named` takes it, or a Hugging Face folder.
        out: the artefact's folder; the checkpoint's is called after it.

    Raises:
        As :func:`import_once`.
    """
    source = place_of(name)
    if source is None or not is_hugging_face(source):
        return name
    folder = out.with_name(f"{out.resolve().name}-checkpoint")
    kind = "Hugging Face folder" if gguf_in(source) is None else "GGUF file"
    sys.stderr.write(f"{name} is a {kind}: it is imported to {folder} first\n")
    if import_once(source, folder) is None:
        sys.stderr.write("imported before\n")
    return str(folder)


def import_once(source: Path, folder: Path) -> str | None:
    """Import a Hugging Face folder or a GGUF file, unless that is done, and no file of either side has changed since.

    Args:
        source: the folder or the file.
        folder: the checkpoint's; what it was made of stands in a file beside it.

    Returns:
        The architecture; None where it was imported before.

    Raises:
        As :func:`models.checkpoints.importers.importing.import_checkpoint`.
    """
    made_of = {
        "source": _read_hashes(source),
        "code": hash_code_below(ROOT / "models"),
        "versions": versions(),
    }
    record = folder.with_name(f"{folder.name}.json")
    if _read(record) == {**made_of, "checkpoint": _hashes(folder)}:
        return None
    from models.checkpoints.importers.importing import import_checkpoint  # torch: seconds

    folder.parent.mkdir(parents=True, exist_ok=True)
    record.unlink(missing_ok=True)
    done = import_checkpoint(source, folder)
    sys.stderr.writelines(f"{note}\n" for note in done.notes)
    record.write_text(json.dumps({**made_of, "checkpoint": _hashes(folder)}), encoding="utf-8")
    return done.architecture


def _read_hashes(source: Path) -> dict[str, str]:
    if source.is_dir():
        return _hashes(source)  # all of them: an index of weights may name files of any ending
    beside = [path for path in source.parent.iterdir() if path.is_file() and path.suffix in _READ - {GGUF_SUFFIX}]
    return {path.name: remembered_sha256(path) for path in sorted([source, *beside])}


def _hashes(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
    return {path.name: remembered_sha256(path) for path in files}


def _read(path: Path) -> Any:
    try:
        return read_json(path)
    except (OSError, ValueError):
        return None
