"""Whether this machine runs every engine of a repository, asked before a server is started on it.

A server that cannot load an engine says "unable to create TensorRT engine" and does not start at all.
"""

from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

from attendant.engine_manifest import ENGINE_MANIFEST_NAME, EngineManifest
from attendant.errors import ArtefactError, AttendantError
from attendant.manifest import Manifest
from attendant.quantities import bytes_text
from attendant.records import version_of
from serving.runtime.tensorrt.engine_match import require_match
from serving.runtime.tensorrt.this_machine import gpu_memory_bytes, this_platform
from serving.triton.repository.entries import CONFIG, MOST_READ_BYTES, model_folders, read_config, served_versions


def check_engines(repository: Path, models: Collection[str] = ()) -> list[EngineManifest]:
    """Hold every engine of a served version to its hash and its graph, and the machine to what it was built for.

    Args:
        repository: a Triton model repository.
        models: which of its models; all of them if none is named.

    Returns:
        The manifests of the models that have engines; nothing is asked of a machine where none has.

    Raises:
        ArtefactError: an engine is damaged, or lies beside another export.
        MachineError: one was built for another TensorRT, GPU or driver; the message names it, and what rebuilds it.
    """
    chosen = sorted(repository / name for name in models) if models else model_folders(repository).values()
    folders = [folder for model in chosen for folder in _with_engines(model)]
    found = [(folder, manifest) for folder in folders if (manifest := EngineManifest.read(folder)) is not None]
    if found:
        machine, memory = this_platform(), gpu_memory_bytes()
        for folder, manifest in found:
            require_match(manifest, machine)
            _verify(folder, memory, _stamp(folder))
    return [manifest for _, manifest in found]


def find_unfit(repository: Path, models: Collection[str] = ()) -> dict[str, str]:
    """The models that cannot be served here because of their engines, and why.

    Args:
        repository: a Triton model repository.
        models: which of its models; all of them if none is named.

    Raises:
        AttendantError: as :func:`check_engines`, where none is left.
    """
    unfit = {}
    present = model_folders(repository).keys()
    names = present & set(models) if models else present
    for name in sorted(names):
        try:
            check_engines(repository, [name])
        except OSError as error:
            unfit[name] = str(error)
        except AttendantError as error:
            unfit[name] = str(error)
            if names <= unfit.keys():
                raise
    return unfit


def _with_engines(model: Path) -> list[Path]:
    """The folders of the versions that Triton serves, where they have engines; it looks into no other folder."""
    if not list(model.glob(f"*/{ENGINE_MANIFEST_NAME}")):
        return []
    try:
        size, config = (model / CONFIG).stat().st_size, read_config(model)
    except OSError:  # which another refuses
        return []
    if size > MOST_READ_BYTES:
        expected = f"a {CONFIG} of at most {bytes_text(MOST_READ_BYTES)} beside engines"
        raise ArtefactError(expected, f"{bytes_text(size)} in {model}", "shorten it")
    folders = [] if config is None else [model / str(one) for one in served_versions(model, config.version_policy)]
    return [folder for folder in folders if (folder / ENGINE_MANIFEST_NAME).is_file()]


def _stamp(folder: Path) -> tuple[object, ...]:
    """What changes with the files of a version, so that they are hashed once alone."""
    return tuple((path.name, version_of(path.stat())) for path in sorted(folder.iterdir()) if path.exists())


@lru_cache(maxsize=256)
def _verify(folder: Path, most_bytes: int, _: object) -> None:
    if (manifest := EngineManifest.read(folder)) is None:
        return  # removed meanwhile
    for engine in manifest.engines:  # before terabytes are hashed
        path = folder / engine.file
        size = path.stat().st_size if path.is_file() else 0
        if size > most_bytes:
            raise ArtefactError(
                f"engines of at most {bytes_text(most_bytes)}, which this GPU holds",
                f"{bytes_text(size)} in {path}",
                f"build the engines of {manifest.name!r} again: `{manifest.command}`",
            )
    manifest.verify(folder, Manifest.read(folder))
