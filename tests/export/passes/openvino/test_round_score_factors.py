"""Queries and keys as integers, where their ranges are known."""

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

from export.passes.match.score_factors import note_largest, score_factors
from export.passes.openvino.round_score_factors import RoundScoreFactors
from tests.export.passes.images import logits, operators

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
