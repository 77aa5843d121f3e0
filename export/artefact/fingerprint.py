"""What decides what an export looks like, as one hash: weights, configuration, options, code and versions.

Nothing of it needs the model: a file is hashed, and what a preset's random weights are follows from its name, the code
and the version of torch. Only a user's Python file has to be run, as it may take its weights from anywhere.
"""

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attendant.errors import ArtefactError
from attendant.manifest import Form, Manifest
from export.artefact.remembered_hashes import remembered_sha256
from export.precision.calibration.files import sample_files
from export.precision.precisions import PRECISIONS
from models.checkpoints.custom_model import traced
from models.checkpoints.file_names import COMPANIONS, CONFIG_NAME, WEIGHTS_NAME
from models.checkpoints.place import place_of

ROOT = Path(__file__).parents[2]
Option = bool | int | float | str | None
"""The value of an option of the command line."""

_PACKAGES = ("torch", "onnx", "onnxscript")
_NOT_IN_GRAPHS = {"train", "pretrained", "quality"}


def fingerprint_of(name: str, options: Mapping[str, Option], form: Form = "onnx") -> str:
    """A hash over all that decides what an export looks like.

    Args:
        name: a checkpoint folder, a Python file, a ``.pt2`` file, a shipped checkpoint or a preset.
        options: flag of the command → value.
        form: the command.

    Raises:
        ArtefactError, ConfigError: a file cannot be read, or a user's own has no whole model.
    """
    code = {**hash_code_below(ROOT / "models"), **hash_code_below(ROOT / "export")}
    parts = {
        "model": _hash_model(name),
        "options": _hash_options(options),
        "form": form,
        "versions": versions(),
        "code": {name: sha for name, sha in code.items() if not _NOT_IN_GRAPHS & set(Path(name).parts)},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def require_unchanged(name: str, options: Mapping[str, Option], fingerprint: str, form: Form = "onnx") -> None:
    """Refuse to call an artefact by a fingerprint that is not the one of what it was made from.

    Args:
        name: as :func:`fingerprint_of` takes it.
        options: the same.
        fingerprint: from before the work.
        form: the same.

    Raises:
        ArtefactError: weights, configuration or code have changed since; graphs may be of both.
    """
    if fingerprint_of(name, options, form) != fingerprint:
        raise ArtefactError(
            f"{name} and the code to stay as they are during an export",
            "other weights, another configuration or other code than at its beginning",
            "export again when nothing is writing them",
        )


def current_artefact(out: Path, fingerprint: str) -> Manifest | None:
    """The manifest of a folder that holds an export of that fingerprint, whole; none where it does not."""
    try:
        manifest = Manifest.read(out)
        if manifest.fingerprint != fingerprint:
            return None
        manifest.verify(out, remembered_sha256)
    except (ArtefactError, OSError):
        return None
    return manifest


def versions() -> dict[str, str]:
    """Package → version, of the tools that write an artefact."""
    return {package: importlib.metadata.version(package) for package in _PACKAGES}


def _hash_model(name: str) -> dict[str, str]:
    place = place_of(name)
    if place is None:
        return {"preset": name}
    if place.is_dir():
        return _hash_folder(place)
    with traced(str(place)) as program:  # of the same module always the same bytes
        return {"program": remembered_sha256(Path(program))}


def _hash_folder(folder: Path) -> dict[str, str]:
    paths = (folder / name for name in (CONFIG_NAME, WEIGHTS_NAME, *COMPANIONS))
    try:
        return {path.name: remembered_sha256(path) for path in paths if path.is_file()}
    except OSError as error:
        raise ArtefactError(f"files that can be read in {folder}", str(error), "make them readable") from error


def _hash_options(options: Mapping[str, Option]) -> dict[str, Any]:
    precision, place = PRECISIONS.get(str(options.get("precision"))), options.get("calibration")
    if place is not None:
        path = Path(str(place))
        files = {str(file.relative_to(path)): remembered_sha256(file) for file in sample_files(path)}
        return {**options, "calibration": files}
    measured = precision is not None and precision.calibrated
    return {**options, "calibration": hash_code_below(ROOT / "models" / "train")} if measured else dict(options)


def hash_code_below(folder: Path) -> dict[str, str]:
    """Python file below a folder of ours → its SHA-256."""
    return {str(path.relative_to(ROOT)): remembered_sha256(path) for path in folder.rglob("*.py")}
