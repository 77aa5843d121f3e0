"""The engines of an artefact on this machine's GPU, so that their runners hand buffers to each other."""

from __future__ import annotations

from pathlib import Path

from attendant.engine_manifest import EngineManifest
from attendant.manifest import Manifest
from attendant.signature import GraphSignature
from serving.runtime.tensorrt.cuda_driver import CudaDriver
from serving.runtime.tensorrt.device import Device
from serving.runtime.tensorrt.engine_match import require_match
from serving.runtime.tensorrt.runner import TrtRunner
from serving.runtime.tensorrt.this_machine import this_platform


class Engines:
    """Loads the engine of one graph after another."""

    def __init__(self, folder: Path, manifest: Manifest, engines: EngineManifest) -> None:
        """Hold them to their hashes, and the machine to what they were built for.

        Raises:
            ArtefactError: an engine is damaged, or was built from another export.
            MachineError: there is no TensorRT or GPU here, or another one.
        """
        engines.verify(folder, manifest)
        require_match(engines, this_platform())
        self._folder, self._engines = folder, engines
        self._device = Device(CudaDriver())

    def runner(self, signature: GraphSignature) -> TrtRunner | None:
        """The runner of a graph; none where no engine was built for it."""
        engines = self._engines.of(signature.name)
        return TrtRunner.load(self._folder, engines, signature, self._device) if engines else None
