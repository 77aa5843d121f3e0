"""TensorRT's form of graphs, run by ONNX Runtime: what it computes, though not by whom.

All of the form is of the standard but its last step, the attribute that lets attention fall apart, which changes no
number (:mod:`export.passes.tensorrt.allow_decomposition`). In bfloat16 it runs as :mod:`export.precision.rounded` says.
Where weights alone are integers, they are multiplied out before: ONNX Runtime would round activations to 8 bits too.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx_ir as ir

from attendant.manifest import Manifest
from attendant.signature import GraphSignature
from export.passes.match.products import add_initializer
from export.passes.quantise.widen_arithmetic import WidenArithmetic
from export.passes.tensorrt.allow_decomposition import without_decomposition
from export.passes.tensorrt.passes import TENSORRT
from export.precision.rounded import in_float32
from serving.runtime.ort.runner import OrtRunner

_BFLOAT16 = ir.DataType.BFLOAT16


def tensorrt_runners(folder: Path, manifest: Manifest) -> dict[str, OrtRunner]:
    """A runner for every graph of an artefact that TensorRT has its own form of: graph name → runner."""
    forms = [one for one in manifest.lowered if one.target == TENSORRT and one.file]
    signatures = [manifest.signature_for(one.graph, TENSORRT) for one in forms]
    with TemporaryDirectory() as place:
        return {
            one.graph: _runner(folder / one.file, signature, Path(place))
            for one, signature in zip(forms, signatures, strict=True)
        }


def is_made_of_its_own(manifest: Manifest) -> bool:
    """Whether the form's numbers are others than those of the standard's graphs: weights alone are integers there."""
    passes = (done for one in manifest.lowered if one.target == TENSORRT for done in one.passes)
    return any(done["name"] == "quantise_weights_only" for done in passes)


def _runner(path: Path, signature: GraphSignature, place: Path) -> OrtRunner:
    model = without_decomposition(ir.load(path))
    _multiply_out(model)
    if any(spec.dtype == "bfloat16" for spec in (*signature.inputs, *signature.outputs)) or _has_bfloat16(model):
        WidenArithmetic(_BFLOAT16)(model)
        signature = in_float32(signature)
    ir.save(model, place / path.name, external_data=f"{path.name}.data")
    return OrtRunner(place / path.name, signature)


def _multiply_out(model: ir.Model) -> None:
    for node in [node for node in model.graph if node.op_type == "DequantizeLinear" and len(node.inputs) == 2]:
        levels, scales = (ir.convenience.get_const_tensor(value) for value in node.inputs if value is not None)
        if levels is not None and scales is not None:
            block = node.attributes.get_int("block_size", 0)
            scale = scales.numpy().repeat(block, 0) if block else scales.numpy()  # else along the last axis
            whole = (levels.numpy().astype(np.float32) * scale.astype(np.float32)).astype(scale.dtype)
            weight = add_initializer(model.graph, f"{node.inputs[0].name}.multiplied", whole)  # type: ignore[union-attr]
            ir.convenience.replace_all_uses_with(node.outputs[0], weight)
            model.graph.remove(node)


def _has_bfloat16(model: ir.Model) -> bool:
    return any(value.dtype == _BFLOAT16 for value in model.graph.initializers.values())
