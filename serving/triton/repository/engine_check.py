"""Whether this machine runs every engine of a repository, asked before a server is started on it.

A server that cannot load an engine says "unable to create TensorRT engine" and does not start at all.
"""

from pathlib import Path

from attendant.engine_manifest import EngineManifest
from attendant.manifest import Manifest
from serving.runtime.tensorrt.engine_match import require_match
from serving.runtime.tensorrt.this_machine import this_platform


def check_engines(repository: Path) -> list[EngineManifest]:
    """Hold every engine to its hash and its graph, and the machine to what it was built for.

    Args:
        repository: a Triton model repository.

    Returns:
        The manifests of the models that have engines; nothing is asked of a machine where none has.

    Raises:
        ArtefactError: an engine is damaged, or lies beside another export.
        MachineError: one was built for another TensorRT, GPU or driver; the message names it, and what rebuilds it.
    """
    found = [(path.parent, EngineManifest.read(path.parent)) for path in sorted(repository.glob("*/*/engine.json"))]
    engines = [(folder, engines) for folder, engines in found if engines is not None]
    for folder, one in engines:
        one.verify(folder, Manifest.read(folder))
    if engines:
        machine = this_platform()
        for _, one in engines:
            require_match(one, machine)
    return [one for _, one in engines]
