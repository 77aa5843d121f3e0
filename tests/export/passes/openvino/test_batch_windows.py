"""Windows as sequences of a batch: the same numbers, where every window has the same bias."""

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from export.passes.match.score_factors import bias_of
from export.passes.openvino.batch_windows import BatchWindows
from export.passes.openvino.gather_windows import GatherWindows
from tests.export.passes.images import logits, operators
from tests.export.passes.modules import assert_computes, traced

WINDOWS, PLACES, HEADS, SIZE = 3, 16, 4, 8


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


class Strips(nn.Module):
    """Attention within strips of a map, all with one bias, seen in two steps as other shapes."""

    def __init__(self, apart, joined):
        super().__init__()
        torch.manual_seed(0)
        self.apart, self.joined, self.parts = apart, joined, nn.Linear(5, 3 * HEADS * SIZE)
        self.register_buffer("bias", torch.randn(1, HEADS, PLACES, PLACES).repeat(1, WINDOWS, 1, 1))

    def forward(self, x):
        parts = (
            part.reshape(-1, WINDOWS, PLACES, HEADS, SIZE).transpose(2, 3).reshape(-1, WINDOWS * HEADS, PLACES, SIZE)
            for part in self.parts(x).chunk(3, -1)
        )
        attended = scaled_dot_product_attention(*parts, attn_mask=self.bias)
        return attended.reshape(-1, *self.apart).transpose(2, 3).reshape(-1, *self.joined)


_OF_WINDOWS = (WINDOWS, HEADS, PLACES, SIZE)


@pytest.mark.parametrize(
    ("apart", "joined", "fired"),
    [
        pytest.param(_OF_WINDOWS, (6, 8, HEADS * SIZE), 1, id="a map"),
        pytest.param(_OF_WINDOWS, (WINDOWS * PLACES, HEADS * SIZE), 1, id="places"),
        pytest.param(_OF_WINDOWS, (WINDOWS, PLACES, HEADS, SIZE), 1, id="heads of places, which is the output"),
        pytest.param((HEADS, WINDOWS, PLACES, SIZE), (HEADS, PLACES, WINDOWS * SIZE), 0, id="heads for windows"),
        pytest.param((WINDOWS, PLACES, HEADS, SIZE), (WINDOWS, PLACES, HEADS * SIZE), 0, id="heads for places"),
    ],
)
def test_whatever_windows_are_joined_to_answers_stay(apart, joined, fired):
    exported = traced(module := Strips(apart, joined), WINDOWS * PLACES, 5)
    assert BatchWindows()(exported.model).fired == fired
    assert_computes(exported, module)


def test_a_bias_for_each_sequence_stays():
    model = traced(Strips(_OF_WINDOWS, (WINDOWS * PLACES, HEADS * SIZE)), WINDOWS * PLACES, 5).model
    bias = bias_of(*attentions(model))
    bias.const_value, bias.shape = ir.tensor(bias.const_value.numpy().repeat(2, 0)), None
    assert BatchWindows()(model).fired == 0
