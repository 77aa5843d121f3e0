"""What `attendant serve PATH…` is given → artefacts, exported and verified, and a repository of them.

What was made stays in the user's cache, and is taken again while the model, the code and the libraries are the same.
"""

import hashlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

from attendant.errors import ArtefactError, AttendantError, OutputError, UserError
from attendant.folders import one_at_a_time
from attendant.manifest import MANIFEST_NAME, Manifest
from attendant.progress import Advance, progress
from attendant.records import read_json
from export.artefact.imported import import_once
from export.artefact.remembered_hashes import memory_file
from export.artefact.stage import export_onnx
from export.bounded.process import run_bounded
from export.parity.parity import read_passed
from export.quality.verification import verify_artefact
from models.checkpoints.custom_model import PROGRAM_NAME, trace_custom_model
from models.checkpoints.file_names import CHECKPOINT_FIELDS, CONFIG_NAME
from models.checkpoints.folder import OURS
from models.checkpoints.place import OWN_SUFFIX, gguf_in, place_of
from serving.triton.repository.layout import CONFIG_NAME as PBTXT_NAME
from serving.triton.repository.layout import write_repository

_SHOWN = "import", "export", "verify"
_ANOTHER_CACHE = "free some space or make it writable, or name another folder by XDG_CACHE_HOME"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What a server can be started on.

    Attributes:
        repository: a Triton model repository.
        models: the names of the models, in the order of the paths.
    """

    repository: Path
    models: tuple[str, ...]


def prepare_models(paths: Sequence[str], repository: Path | None = None, *, explain: bool = False) -> Prepared:
    """Import, export and verify what each path holds, and lay it out for Triton.

    In a process of its own, as what serves needs neither torch nor what an export leaves behind.

    Args:
        paths: Hugging Face folders, checkpoints, .gguf, .py and .pt2 files, artefacts; also names of `attendant models
            list`.
        repository: the one to write; a folder of the cache if not given.
        explain: whether models also show what they attend to, on the page and to clients.

    Raises:
        AttendantError: a path is none of these, or as import, export, verify and repository raise.
    """
    try:
        cache = memory_file().parent
    except RuntimeError as error:
        raise OutputError("a user's home, for a cache", str(error), _ANOTHER_CACHE) from error
    prepared: Prepared = run_bounded("commands.model_paths:prepare_here", cache, paths, repository, explain)
    return prepared


def prepare_here(cache: Path, paths: Sequence[str], repository: Path | None = None, explain: bool = False) -> Prepared:
    """The same, in this process.

    Args:
        cache: where a folder for each path lies.
        paths: as above.
        repository: as above.
        explain: as above.

    Raises:
        OutputError: the cache cannot be written.
        AttendantError: as above.
    """
    for path in paths:  # before the work on any of them
        _require_model(path)
    if repository is None or not all(_is_artefact(Path(path)) for path in paths):
        _require_writable(cache)
    folders = [cache / "served" / _key(explain, path) for path in paths]
    with progress("serve", len(_SHOWN) * len(paths) + 1) as advance:
        try:
            artefacts = [_prepare(path, folder, explain, advance) for path, folder in zip(paths, folders, strict=True)]
        except OutputError as error:  # whose remedy is a flag that `serve` has not
            raise OutputError(error.expected, error.found, _ANOTHER_CACHE) from error
        out = repository or cache / "served" / _key(explain, *paths) / "repository"
        if repository is None:
            _remove_unless(Path.is_dir, out)
            _remove_strays(out, lambda one: (one / PBTXT_NAME).is_file())
        manifests = write_repository(artefacts, out)
        advance(f"repository {out}")
    return Prepared(repository=out, models=tuple(manifest.name for manifest in manifests))


def _require_writable(cache: Path) -> None:
    try:
        (cache / "served").mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=cache / "served").close()
    except OSError as error:
        raise OutputError(f"a cache to write at {cache}", str(error), _ANOTHER_CACHE) from error


def _key(explain: bool, *paths: str) -> str:
    # Of another choice, what is served is another: two at once must not exchange it beneath each other.
    places = [str(Path(path).resolve()) if Path(path).exists() else path for path in paths]
    places += ["--explain"] * explain
    return hashlib.sha256("\n".join(places).encode()).hexdigest()[:16]


def _require_model(path: str) -> None:
    place, known = Path(path), place_of(path) is not None
    if gguf_in(place) is not None:
        return
    if place.is_dir() and not any((place / name).is_file() for name in (CONFIG_NAME, MANIFEST_NAME)):
        if any(place.glob(f"*/{PBTXT_NAME}")):
            raise UserError("a model", f"the model repository {path}", f"serve it with --repository {path}")
        raise ArtefactError(
            f"a {CONFIG_NAME} (Hugging Face, or a checkpoint) or a {MANIFEST_NAME} (an artefact) in {path}",
            "neither",
            "name the model's own folder, or a .gguf, .py or .pt2 file (docs/tutorials/your-own-model.md)",
        )
    if not place.exists() and not known and ("/" in path or place.suffix):
        raise ArtefactError(f"a model at {path}", "nothing there", "correct the path, or see `attendant models list`")


def _prepare(path: str, folder: Path, explain: bool, advance: Advance) -> Path:
    place, source, imported = Path(path), path, "nothing to import"
    if _is_artefact(place):
        name = Manifest.read(place).name
        for step in _SHOWN:
            advance(f"{name}: {step}: an artefact already")
        return place
    artefact = folder / "artefact"
    with one_at_a_time(folder):  # another process would trace or import beneath this one's export
        if place.is_file() and path.endswith(OWN_SUFFIX):
            traced = folder / "traced"
            traced.mkdir(parents=True, exist_ok=True)
            source, imported = str(trace_custom_model(place, traced)), PROGRAM_NAME
        elif _is_hugging_face(place):
            source, imported = str(folder / "checkpoint"), _import(place, folder / "checkpoint")
        advance(f"{path}: {imported}")
        _remove_unless(_is_whole_artefact, artefact)
        manifest, done = export_onnx(source, artefact, explain)
        advance(f"{manifest.name}: {'exported' if done else 'exported before'}")
        if done or read_passed(artefact) is None:
            verify_artefact(artefact, source).require()
            advance(f"{manifest.name}: verified")
        else:
            advance(f"{manifest.name}: verified before")
    return artefact


def _is_artefact(place: Path) -> bool:
    return (place / MANIFEST_NAME).is_file()


def _is_hugging_face(place: Path) -> bool:
    if gguf_in(place) is not None:
        return True
    return (place / CONFIG_NAME).is_file() and not _is_checkpoint(place)  # the import says what is wrong with it


def _import(place: Path, out: Path) -> str:
    _remove_unless(_is_checkpoint, out)
    _remove_strays(out, lambda one: one.name in OURS)
    architecture = import_once(place, out)
    return "imported before" if architecture is None else f"imported {architecture}"


def _remove_strays(folder: Path, is_ours: Callable[[Path], bool]) -> None:
    # What a system leaves in a folder of the cache, as .DS_Store, must not keep it from being replaced.
    for place in folder.iterdir() if folder.is_dir() else ():
        if not is_ours(place):
            _remove(place)


def _remove_unless(is_whole: Callable[[Path], bool], place: Path) -> None:
    # Whatever lies in the cache is ours: what is damaged there is made again, and is nobody's folder to be spared.
    if not is_whole(place):
        _remove(place)


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def _is_checkpoint(folder: Path) -> bool:
    try:
        return set(read_json(folder / CONFIG_NAME)) >= CHECKPOINT_FIELDS
    except (OSError, ValueError, TypeError):
        return False


def _is_whole_artefact(folder: Path) -> bool:
    try:
        return bool(Manifest.read(folder).name)
    except AttendantError:
        return False
