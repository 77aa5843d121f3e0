"""Whose engines may run here: TensorRT runs what lies in a plan, as a program, so that its author is to be known.

An artefact is data, whoever it comes from, but for its engines. Those that this user has built on this machine are
known by the hash of ``engine.json``, which holds the hash of each plan; others are once the user says so. What lies in
a model repository was taken there by one who knew it, and stands beside the code of that model.

Source: NVIDIA TensorRT 11.4, "Security": deserialising an engine of others is running native code of theirs.
"""

from pathlib import Path

from attendant.engine_manifest import ENGINE_MANIFEST_NAME
from attendant.errors import ArtefactError, MachineError
from attendant.manifest import sha256_of
from serving.runtime.ort.kernels.library import cache_folder


def remember_engines(folder: Path) -> None:
    """Know the engines of an artefact from now on.

    Raises:
        MachineError: there is no folder to note it in that is this user's alone.
    """
    _note(folder).touch()


def are_known(folder: Path) -> bool:
    """Whether the engines of an artefact were built by this user, or are trusted.

    Raises:
        MachineError: there is no folder to look in that is this user's alone.
    """
    return _note(folder).is_file()


def require_known(folder: Path) -> None:
    """Refuse engines of others.

    Raises:
        ArtefactError: they are.
    """
    if not are_known(folder):
        raise ArtefactError(
            f"engines in {folder} that were built here",
            "others, which are programs of whoever built them",
            f"say that you know who did, `attendant engines trust {folder}`, or leave them out, --runtime onnxruntime",
        )


def is_laid_out(folder: Path) -> bool:
    """Whether an artefact lies in a model repository, beside code that a server runs."""
    return (folder.parent / "config.pbtxt").is_file()


def _note(folder: Path) -> Path:
    try:
        return cache_folder("engines") / sha256_of(folder / ENGINE_MANIFEST_NAME)
    except OSError as error:
        raise MachineError(
            "a folder that knows whose engines may run", str(error), "set XDG_CACHE_HOME to a folder of yours"
        ) from error
