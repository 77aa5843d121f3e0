"""The engines of an artefact on this machine's GPU, so that their runners hand buffers to each other."""

from __future__ import annotations

from pathlib import Path

from models.engine_manifest import EngineManifest
from models.manifest import Manifest
from models.signature import GraphSignature
from serving.runtime.trt.cuda_driver import CudaDriver
from serving.runtime.trt.device import Device
from serving.runtime.trt.engine_match import require_match
from serving.runtime.trt.this_machine import this_platform
from serving.runtime.trt_runner import TrtRunner


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
