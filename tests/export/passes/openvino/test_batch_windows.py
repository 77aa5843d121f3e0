"""Windows as sequences of a batch: the same numbers, where every window has the same bias."""

import numpy as np
import onnx_ir as ir
import pytest

from export.passes.match.score_factors import bias_of
from export.passes.openvino.batch_windows import BatchWindows
from export.passes.openvino.gather_windows import GatherWindows
from tests.export.passes.images import logits, operators


@pytest.fixture
def swin(explained_swin):
    """The graph of the shipped Swin."""
    return ir.load(explained_swin / "model.onnx")


def attentions(model):
    return [node for node in model.graph if node.op_type == "Attention"]


def test_windows_of_one_bias_become_sequences_and_answers_stay(swin):
    before, windows = logits(swin), len(attentions(swin))
    fired = BatchWindows()(swin).fired
    assert 0 < fired < windows, "the shifted ones have biases of their own"
    np.testing.assert_allclose(logits(swin), before, rtol=0, atol=2e-5 * np.abs(before).max())
    assert len(attentions(swin)) == windows
    rewritten = [node for node in attentions(swin) if node.inputs[0].producer().op_type == "Transpose"]
    assert len(rewritten) == fired
    assert all(tuple(bias_of(node).shape)[:2] == (1, node.inputs[0].shape[1]) for node in rewritten)


def test_a_second_run_fires_nothing(swin):
    BatchWindows()(swin)
    before = operators(swin)
    assert BatchWindows()(swin).fired == 0
    assert operators(swin) == before


def test_it_does_not_matter_how_windows_are_cut(swin):
    before, expected = logits(swin), BatchWindows()(swin.clone()).fired
    GatherWindows()(swin)
    assert BatchWindows()(swin).fired == expected
    np.testing.assert_allclose(logits(swin), before, rtol=0, atol=2e-5 * np.abs(before).max())


def test_a_bias_that_differs_in_one_window_keeps_its_attention_as_it_is(swin):
    expected = BatchWindows()(swin.clone()).fired
    for node in attentions(swin):
        bias = bias_of(node)
        values = bias.const_value.numpy().copy()
        values[..., -1, 0, 0] += 1
        bias.const_value = ir.tensor(values, name=bias.name)
    assert expected > BatchWindows()(swin).fired
