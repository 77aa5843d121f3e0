"""Whether a machine runs the engines of an artefact, decided from their manifest before anything loads them.

TensorRT itself says no more than that a plan could not be deserialised, and a server then does not start.
"""

from __future__ import annotations

from collections.abc import Iterator

from attendant.engine_manifest import Engine, EngineManifest, Platform
from attendant.errors import MachineError

_AMPERE = 8


def require_match(manifest: EngineManifest, machine: Platform) -> None:
    """Refuse engines that the machine cannot run.

    Raises:
        MachineError: one was built for another version of TensorRT, another GPU, or a newer driver.
    """
    for engine in manifest.engines:
        for expected, found in mismatches(engine, manifest.platform, machine):
            raise MachineError(
                f"{expected}, for which the engine {manifest.name}/{engine.file} was built",
                found,
                f"build it again on this machine: `{manifest.command}`",
            )


def mismatches(engine: Engine, built: Platform, machine: Platform) -> Iterator[tuple[str, str]]:
    """What an engine wants and the machine has not: pairs of both.

    Args:
        engine: the engine.
        built: what it was built with.
        machine: what shall run it.
    """
    if not _runs_version(engine, built.tensorrt, machine.tensorrt):
        later = " or later of the same major version" if engine.version_compatible else ""
        yield f"TensorRT {built.tensorrt}{later}", f"TensorRT {machine.tensorrt}"
    if engine.hardware == "ampere-plus":
        if _numbers(machine.capability)[0] < _AMPERE:
            yield "a GPU of compute capability 8.0 or higher", _describe(machine)
    elif machine.capability != built.capability:
        yield f"a GPU of compute capability {built.capability}", _describe(machine)
    elif engine.hardware == "this-gpu" and machine.gpu != built.gpu:
        yield f"the GPU {built.gpu}", _describe(machine)
    # Within a major version older drivers run newer code, except PTX, which plugins embed.
    needed = _numbers(built.cuda) if engine.plugins else _numbers(built.cuda)[:1]
    if _numbers(machine.cuda) < needed:
        yield f"a driver that knows CUDA {built.cuda}", f"driver {machine.driver}, which knows CUDA {machine.cuda}"


def _runs_version(engine: Engine, built: str, found: str) -> bool:
    if not engine.version_compatible:
        return built == found
    return _numbers(found)[0] == _numbers(built)[0] and _numbers(found) >= _numbers(built)


def _describe(machine: Platform) -> str:
    return f"{machine.gpu} of compute capability {machine.capability}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
