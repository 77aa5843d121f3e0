"""Graphs of a type that ONNX Runtime's CPU provider lacks, run there in float32 and rounded wherever they round."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx_ir as ir

from attendant.signature import GraphSignature, TensorSpec
from export.graph.exported_graph import ExportedGraph
from export.passes.quantise.widen_arithmetic import WidenArithmetic
from serving.runtime.ort.runner import OrtRunner


def rounded_runners(
    folder: Path, signatures: Iterable[GraphSignature], dtype: ir.DataType = ir.DataType.BFLOAT16
) -> dict[str, OrtRunner]:
    """A runner for every graph of an artefact: graph name → runner.

    Args:
        folder: the artefact.
        signatures: of its graphs, in float32: what they take and return, with the numbers of the narrow type.
        dtype: the narrow type.

    Raises:
        ArtefactError: a file is no ONNX graph, or ONNX Runtime cannot load it.
    """
    runners = {}
    with TemporaryDirectory() as widened:
        for signature in signatures:
            path = Path(widened) / f"{signature.name}.onnx"
            model = ExportedGraph.read(folder, signature).model
            WidenArithmetic(dtype)(model)
            ir.save(model, path, external_data=f"{path.name}.data")
            runners[signature.name] = OrtRunner(path, signature)
    return runners


def in_float32(signature: GraphSignature) -> GraphSignature:
    """What such a graph takes and returns: float32 in the place of the narrow type."""

    def widened(spec: TensorSpec) -> TensorSpec:
        return replace(spec, dtype="float32") if spec.dtype == "bfloat16" else spec

    inputs, outputs = (tuple(map(widened, specs)) for specs in (signature.inputs, signature.outputs))
    return replace(signature, inputs=inputs, outputs=outputs)
