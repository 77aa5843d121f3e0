"""Graphs that were not made here, typed within the budget of each precision, by the command that a user types."""

from pathlib import Path

import onnx
import pytest

from export.precision.precisions import PRECISIONS
from tests.export.mixed_precision import foreign_models
from tests.export.mixed_precision.test_half import convert

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
BUDGETS = {"fp16": "fp16", "bf16": "bf16", "int8": "int8-static"}
MODELS = {
    "U-Net": foreign_models.unet,
    "BERT": foreign_models.bert,
    "T5": foreign_models.t5,
    "YOLOS": foreign_models.detector,
    "ResNet": lambda folder: foreign_models.timm_cnn(folder, "resnet10t", 32),
    "MobileNet": lambda folder: foreign_models.timm_cnn(folder, "mobilenetv3_small_050", 32),
    "ConvNeXt": lambda folder: foreign_models.timm_cnn(folder, "convnext_atto", 32),
}
REFUSED = {"YOLOS": {"mode = cubic"}}
"""What TensorRT's parser does not take of a model in any precision."""
SPOILED = ("1d_multiparam", "2d_multiparam", "3d_multiparam")
"""The converter to a newer opset leaves their slopes in a shape that ONNX Runtime refuses."""
NO_BFLOAT16 = ("ConvTranspose",)
UPSAMPLING = {
    "fp16": {},
    "bf16": {"ConvTranspose": "TensorRT 11, its ONNX parser has no ConvTranspose of bfloat16"},
    "int8": {"ConvTranspose": "only MatMul, Gemm and Conv have a form in int8"},
}
"""What of a U-Net stays in float32."""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    made = {}

    def make(name):
        if name not in made:
            made[name] = MODELS[name](tmp_path_factory.mktemp(name))
        return made[name]

    return make


@pytest.mark.slow
@pytest.mark.parametrize("precision", BUDGETS)
@pytest.mark.parametrize("name", [name for name in MODELS if name != "U-Net"])
def test_a_model_of_others_keeps_its_budget(files, name, precision):
    outcome, _ = convert(files(name), precision, budget=None)
    broken = {violation.found for check in outcome.checks for violation in check.violations}
    assert broken == REFUSED.get(name, set())
    assert 0 < outcome.worst <= PRECISIONS[BUDGETS[precision]].budget.drift
    before, after = outcome.nbytes
    assert after <= 0.75 * before  # weights that stay as they are: tables, of int8, and shapes
    assert sum(outcome.typed.operators.values()) > 5 * len(outcome.measured)


@pytest.mark.parametrize("precision", BUDGETS)
def test_a_u_net_keeps_its_budget(files, precision):
    outcome, _ = convert(files("U-Net"), precision, budget=None)
    assert 0 < outcome.worst <= PRECISIONS[BUDGETS[precision]].budget.drift
    reasons = {node.operator: node.reason for node in outcome.typed.kept}
    assert reasons == UPSAMPLING[precision]


@pytest.mark.slow
@pytest.mark.planted
def test_activations_that_fp16_cannot_hold_stay_in_float32(tmp_path):
    # Its weights are all 0.02 and its inputs large, so that activations grow from layer to layer.
    source = tmp_path / "squeezenet.onnx"
    source.write_bytes((LIGHT / "light_squeezenet.onnx").read_bytes())
    outcome, _ = convert(source, "fp16", budget=None, samples=1)
    reasons = [node.reason for node in outcome.measured]
    assert all("no finite answer" in reason for reason in reasons) and any("beyond 65504" in one for one in reasons)
    outcome, _ = convert(source, "bf16", budget=None, samples=1)
    assert outcome.measured == ()


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_onnx_s_own_models_of_layers_are_typed_as_the_standard_says(tmp_path, precision):
    """Each with one layer: convert() has onnx check every file that is written."""
    typed = []
    for folder in sorted((LIGHT.parent / "pytorch-converted").iterdir()):
        if any(word in folder.name for word in SPOILED + NO_BFLOAT16 * (precision == "bf16")):
            continue
        source = tmp_path / f"{folder.name}.onnx"
        source.write_bytes((folder / "model.onnx").read_bytes())
        model = onnx.load(source)
        model = onnx.version_converter.convert_version(_with_constants(model), 13)
        onnx.save(model, source)
        outcome, _ = convert(source, precision, samples=1)
        typed.append(sum(outcome.typed.operators.values()))
    assert len(typed) > 50 and min(typed) > 0


def _with_constants(model):
    # The converter adds constants, which have to be inputs in files of before 2019.
    model.ir_version = max(model.ir_version, 8)
    return model
