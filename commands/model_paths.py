"""What `attendant serve PATH…` is given → artefacts, exported and verified, and a repository of them.

What was made stays in the user's cache, and is taken again while the model, the code and the libraries are the same.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attendant.errors import ArtefactError, UserError
from attendant.manifest import MANIFEST_NAME, Manifest
from attendant.progress import Advance, progress
from attendant.records import read_json
from export.artefact.fingerprint import ROOT, hash_code_below, versions
from export.artefact.remembered_hashes import memory_file, remembered_sha256
from export.artefact.stage import export_onnx
from export.bounded.process import run_bounded
from export.parity.parity import PARITY_NAME
from export.quality.verification import verify_artefact
from models.checkpoints.custom_model import PROGRAM_NAME, trace_custom_model
from models.checkpoints.file_names import CHECKPOINT_FIELDS, CONFIG_NAME
from models.checkpoints.place import GGUF_SUFFIX, OWN_SUFFIX, gguf_in, place_of
from serving.triton.repository.layout import CONFIG_NAME as PBTXT_NAME
from serving.triton.repository.layout import write_repository

_SHOWN = "import", "export", "verify"
_READ = {".json", ".safetensors", GGUF_SUFFIX, ".model", ".jinja", ".txt", ".spm"}
"""Endings of the files of a Hugging Face folder that an import reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What a server can be started on.

    Attributes:
        repository: a Triton model repository.
        models: the names of the models, in the order of the paths.
    """

    repository: Path
    models: tuple[str, ...]


def prepare_models(paths: Sequence[str], repository: Path | None = None) -> Prepared:
    """Import, export and verify what each path holds, and lay it out for Triton.

    In a process of its own, as what serves needs neither torch nor what an export leaves behind.

    Args:
        paths: Hugging Face folders, checkpoints, .gguf, .py and .pt2 files, artefacts; also names of `attendant models
            list`.
        repository: the one to write; a folder of the cache if not given.

    Raises:
        AttendantError: a path is none of these, or as import, export, verify and repository raise.
    """
    prepared: Prepared = run_bounded("commands.model_paths:prepare_here", memory_file().parent, paths, repository)
    return prepared


def prepare_here(cache: Path, paths: Sequence[str], repository: Path | None = None) -> Prepared:
    """The same, in this process.

    Args:
        cache: where a folder for each path lies.
        paths: as above.
        repository: as above.
    """
    for path in paths:  # before the work on any of them
        _require_model(path)
    folders = [cache / "served" / _key(path) for path in paths]
    with progress("serve", len(_SHOWN) * len(paths) + 1) as advance:
        artefacts = [_prepare(path, folder, advance) for path, folder in zip(paths, folders, strict=True)]
        out = repository or cache / "served" / _key(*paths) / "repository"
        manifests = write_repository(artefacts, out)
        advance(f"repository {out}")
    return Prepared(repository=out, models=tuple(manifest.name for manifest in manifests))


def _key(*paths: str) -> str:
    places = [str(Path(path).resolve()) if Path(path).exists() else path for path in paths]
    return hashlib.sha256("\n".join(places).encode()).hexdigest()[:16]


def _require_model(path: str) -> None:
    place = Path(path)
    if gguf_in(place) is not None:
        return
    if place.is_dir() and not any((place / name).is_file() for name in (CONFIG_NAME, MANIFEST_NAME)):
        if any(place.glob(f"*/{PBTXT_NAME}")):
            raise UserError("a model", f"the model repository {path}", f"serve it with --repository {path}")
        raise ArtefactError(
            f"a {CONFIG_NAME} (Hugging Face, or a checkpoint), a {MANIFEST_NAME} (an artefact) or GGUF in {path}",
            "neither",
            "name the model's own folder, or a .gguf, .py or .pt2 file (docs/tutorials/your-own-model.md)",
        )
    if not place.exists() and place_of(path) is None and ("/" in path or place.suffix):
        raise ArtefactError(f"a model at {path}", "nothing there", "correct the path, or see `attendant models list`")


def _prepare(path: str, folder: Path, advance: Advance) -> Path:
    place, source, imported = Path(path), path, "nothing to import"
    if (place / MANIFEST_NAME).is_file():
        name = Manifest.read(place).name
        for step in _SHOWN:
            advance(f"{name}: {step}: an artefact already")
        return place
    if place.is_file() and path.endswith(OWN_SUFFIX):
        traced = folder / "traced"
        traced.mkdir(parents=True, exist_ok=True)
        source, imported = str(trace_custom_model(place, traced)), PROGRAM_NAME
    elif _is_hugging_face(place):
        source, imported = str(folder / "checkpoint"), _import(place, folder / "checkpoint")
    advance(f"{path}: {imported}")
    artefact = folder / "artefact"
    manifest, done = export_onnx(source, artefact)
    advance(f"{manifest.name}: {'exported' if done else 'exported before'}")
    if done or not _has_passed(artefact):
        verify_artefact(artefact, source).require()
        advance(f"{manifest.name}: verified")
    else:
        advance(f"{manifest.name}: verified before")
    return artefact


def _is_hugging_face(place: Path) -> bool:
    if gguf_in(place) is not None:
        return True
    if not (place / CONFIG_NAME).is_file():
        return False
    try:
        return not set(read_json(place / CONFIG_NAME)) >= CHECKPOINT_FIELDS
    except (OSError, ValueError, TypeError):
        return True  # and the import says what is wrong with it


def _import(place: Path, out: Path) -> str:
    folder = place.parent if place.is_file() else place  # a tokenizer may stand beside a GGUF file
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in _READ)
    parts = {
        "files": {path.name: remembered_sha256(path) for path in files},
        "code": hash_code_below(ROOT / "models"),
        "versions": versions(),
    }
    fingerprint = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    known = out.with_name("imported")
    if known.is_file() and known.read_text() == fingerprint and (out / CONFIG_NAME).is_file():
        return "imported before"
    from models.checkpoints.importers.importing import import_checkpoint

    out.parent.mkdir(parents=True, exist_ok=True)
    known.unlink(missing_ok=True)
    done = import_checkpoint(place, out)
    known.write_text(fingerprint)
    return f"imported {done.architecture}"


def _has_passed(artefact: Path) -> bool:
    try:
        return bool(read_json(artefact / PARITY_NAME)["passed"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
