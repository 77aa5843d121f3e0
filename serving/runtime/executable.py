"""Which artefacts no runtime on a CPU executes, known from the manifest alone."""

from __future__ import annotations

from models.engine_manifest import EngineManifest
from models.errors import MachineError
from models.manifest import Manifest
from serving.parameters import Runtime

WITHOUT_ORT_CPU = {"bf16"}
"""Precisions that ONNX Runtime's CPU provider has no operators for (1.31: no MatMul of bfloat16, among others)."""


def require_executable(manifest: Manifest, runtime: Runtime, engines: EngineManifest | None = None) -> None:
    """Refuse an artefact that cannot be executed here.

    Args:
        manifest: the artefact's.
        runtime: that is asked for.
        engines: those that TensorRT runs.

    Raises:
        MachineError: no runtime has operators of its type, or the one that is asked for has none.
    """
    built = {engine.graph for engine in engines.engines} if engines is not None else set()
    graphs = [graph for graph in manifest.graphs if graph.name not in built]
    if manifest.precision not in WITHOUT_ORT_CPU or not graphs:
        return
    cached = [graph.name for graph in graphs if graph.aliases]
    if cached or runtime == "onnxruntime":
        raise MachineError(
            f"a runtime on a CPU for {manifest.name!r} in {manifest.precision}",
            "ONNX Runtime, which has no operators of that type"
            + (f", and OpenVINO, which updates no cache as {cached} do" if cached else ""),
            "serve an export with --precision fp16, or build engines of this one on a GPU: `python -m export engine`",
        )
