"""Graphs of a type that ONNX Runtime's CPU provider lacks, run there in float32 and rounded wherever they round."""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx_ir as ir

from attendant.signature import GraphSignature
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
    """
    runners = {}
    with TemporaryDirectory() as widened:
        for signature in signatures:
            path = Path(widened) / f"{signature.name}.onnx"
            model = ir.load(folder / path.name)
            WidenArithmetic(dtype)(model)
            ir.save(model, path, external_data=f"{path.name}.data")
            runners[signature.name] = OrtRunner(path, signature)
    return runners
