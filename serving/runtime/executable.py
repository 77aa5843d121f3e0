"""Which artefacts no runtime on a CPU executes, known from the manifest alone."""

from __future__ import annotations

from models.errors import MachineError
from models.manifest import Manifest
from serving.parameters import Runtime

WITHOUT_ORT_CPU = {"bf16"}
"""Precisions that ONNX Runtime's CPU provider has no operators for (1.31: no MatMul of bfloat16, among others)."""


def require_executable(manifest: Manifest, runtime: Runtime) -> None:
    """Refuse an artefact that cannot be executed here.

    Raises:
        MachineError: no runtime has operators of its type, or the one that is asked for has none.
    """
    if manifest.precision not in WITHOUT_ORT_CPU:
        return
    cached = [graph.name for graph in manifest.graphs if graph.aliases]
    if cached or runtime == "onnxruntime":
        raise MachineError(
            f"a runtime on a CPU for {manifest.name!r} in {manifest.precision}",
            "ONNX Runtime, which has no operators of that type"
            + (f", and OpenVINO, which updates no cache as {cached} do" if cached else ""),
            "serve an export with --precision fp16, or take this one to a GPU",
        )
