"""Rounding in a multiplication: the same integers but for ties, and no operator of OpenVINO's that only rounds."""

import numpy as np
import onnx_ir as ir
import pytest

from export.passes.openvino.attend_by_products import AttendByProducts
from export.passes.openvino.gather_windows import GatherWindows
from export.passes.openvino.normalise_rows import NormaliseRows
from export.passes.openvino.round_before_moves import RoundBeforeMoves
from export.passes.openvino.round_in_multiplications import RoundInMultiplications
from export.passes.quantise.quantise_static import QuantiseStatic, calibrated_values
from serving.runtime.openvino.runner import openvino_is_installed
from tests.export.passes.images import logits, operators

BEFORE = (GatherWindows, AttendByProducts, NormaliseRows, RoundBeforeMoves)


@pytest.fixture
def rounded(explained_swin):
    """The shipped Swin in static int8, with one range for everything, as OpenVINO is to have it but for this pass."""
    model = ir.load(explained_swin / "model.onnx")
    QuantiseStatic({str(value.name): 6.0 for value in calibrated_values(model.graph)})(model)
    for one in BEFORE:
        one()(model)
    return model


def test_what_each_window_attends_to_is_rounded_in_a_multiplication_and_answers_stay(rounded):
    before, attentions = logits(rounded), operators(rounded).count("Softmax")
    assert RoundInMultiplications()(rounded).fired == attentions > 0
    after = logits(rounded)
    assert np.abs(after - before).max() < 0.01 * np.abs(before).max()
    assert (after.argmax(-1) == before.argmax(-1)).all()
    assert RoundInMultiplications()(rounded).fired == 0


def test_what_norms_and_pixels_are_rounded_from_stays(rounded):
    kept = [node for node in rounded.graph if node.op_type == "QuantizeLinear"]
    RoundInMultiplications()(rounded)
    sources = [node.inputs[0].producer() for node in kept]
    assert {None, "LayerNormalization", "Mul"} <= {node and node.op_type for node in sources}


@pytest.mark.skipif(not openvino_is_installed(), reason="OpenVINO is not installed")
def test_openvino_rounds_by_itself_only_what_it_is_given(rounded, tmp_path):
    import openvino

    def counted(model):
        ir.save(model, tmp_path / "model.onnx")
        compiled = openvino.Core().compile_model(tmp_path / "model.onnx", "CPU")
        kinds = [node.get_rt_info()["layerType"] for node in compiled.get_runtime_model().get_ops()]
        return kinds.count("FakeQuantize")

    before, attentions = counted(rounded), operators(rounded).count("Softmax")
    RoundInMultiplications()(rounded)
    assert counted(rounded) == before - attentions == 1
