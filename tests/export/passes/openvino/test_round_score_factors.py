"""Queries and keys as integers, where their ranges are known."""

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from export.passes.lowering import lower_graph
from export.passes.match.score_factors import note_largest, score_factors
from export.passes.openvino.round_score_factors import RoundScoreFactors
from export.passes.quantise.quantise_static import QuantiseStatic, calibrated_values
from serving.runtime.openvino.runner import OpenVinoRunner, openvino_is_installed
from tests.export.passes.images import logits, operators
from tests.export.passes.modules import traced

PLAIN = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
"""ONNX Runtime 1.31 fails to optimise signed integers here: these are for another runtime."""


@pytest.fixture(params=["explained_swin", "tiny_classifier"], ids=["windows", "rows"])
def model(request):
    """A graph whose attention has no mask; with a bias and without."""
    return ir.load(request.getfixturevalue(request.param) / "model.onnx")


def note_all(model, largest):
    note_largest(model.graph, {factor.source.name: largest for factor in score_factors(model.graph)})


def test_all_with_a_range_are_rounded_by_it(model):
    before = logits(model, level=PLAIN)
    note_all(model, 20.0)
    attentions = operators(model).count("Attention")
    assert RoundScoreFactors()(model).fired == 2 * attentions == operators(model).count("QuantizeLinear") > 0
    off = np.abs(logits(model, level=PLAIN) - before).max() / np.abs(before).max()
    assert 1e-6 < off < 0.1


def test_without_a_range_they_stay(model):
    before = operators(model)
    assert RoundScoreFactors()(model).fired == 0
    assert operators(model) == before


def test_a_second_run_fires_nothing(model):
    note_all(model, 20.0)
    RoundScoreFactors()(model)
    before = operators(model)
    assert RoundScoreFactors()(model).fired == 0
    assert operators(model) == before


def test_under_a_mask_of_a_run_they_are_the_encoders_and_none_of_a_cache(tiny_translator):
    encoder = ir.load(tiny_translator / "encoder.onnx")
    assert len(score_factors(encoder.graph)) == 2 * operators(encoder).count("Attention") > 0
    graph = ir.load(tiny_translator / "decoder.onnx").graph
    assert {factor.name for factor in score_factors(graph)} <= {"queries"}, "its keys are read from a cache"


class Sharp(nn.Module):
    """Attention whose scores matter, under a mask of each row of its input."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))
        self.query.weight.data *= 30

    def forward(self, x):
        query, key, value = (
            one(x).unflatten(-1, (2, -1)).transpose(1, 2) for one in (self.query, self.key, self.value)
        )
        return scaled_dot_product_attention(query, key, value, (x[:, :, 0] > -1.0)[:, None, None])


@pytest.mark.skipif(not openvino_is_installed(), reason="OpenVINO is not installed")
@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_openvino_attends_under_a_mask_as_the_module_does(tmp_path, precision):
    exported, x = traced(module := Sharp(), 6, 16), torch.randn(5, 6, 16, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        ranges = [4.0, *(float(product(x).abs().max()) for product in (module.query, module.key))]
    names = [str(value.name) for value in calibrated_values(exported.model.graph)]
    QuantiseStatic(dict(zip(names, ranges, strict=True)))(exported.model)
    exported.write(tmp_path)
    (form,) = lower_graph(exported, tmp_path, ["openvino-cpu"])
    assert operators(ir.load(tmp_path / form.file)).count("QuantizeLinear") == 3
    runner = OpenVinoRunner(tmp_path / form.file, exported.signature, precision=precision)
    found = runner.run({"x": x.numpy()})["y0"].numpy()
    with torch.no_grad():
        exact = module.double()(x.double()).numpy()
    assert np.linalg.norm(found - exact) < 0.1 * np.linalg.norm(exact)
