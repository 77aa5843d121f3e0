import math

import pytest
import torch
from transformers import Swinv2Config
from transformers.models.swinv2.modeling_swinv2 import Swinv2SelfAttention

from models.layers.continuous_position_bias import ContinuousPositionBias, log_spaced_offsets
from models.layers.relative_position_2d import offset_of_pair
from tests.models.agreement import difference, parameters_that_do_not_matter, randomised

HEADS = 2
WINDOWS = [(1, 1), (2, 2), (3, 3), (8, 8), (5, 3), (16, 12), (3, 8)]


def layer_of(window, pretrained_window=None):
    torch.manual_seed(0)
    return randomised(ContinuousPositionBias(window, HEADS, pretrained_window, hidden=16), torch.float64)


def log_spaced(offset, pretrained_window):
    scaled = 8 * offset / (pretrained_window - 1)
    return math.copysign(math.log2(1 + abs(scaled)) / math.log2(8), scaled)


def bias_by_loops(layer, window, pretrained_window):
    bias = torch.zeros(HEADS, window**2, window**2, dtype=torch.float64)
    places = [(row, column) for row in range(window) for column in range(window)]
    for p, (row, column) in enumerate(places):
        for q, (other_row, other_column) in enumerate(places):
            spaced = [log_spaced(each, pretrained_window) for each in (row - other_row, column - other_column)]
            hidden = (layer.expand.weight @ torch.tensor(spaced, dtype=torch.float64) + layer.expand.bias).clamp(min=0)
            bias[:, p, q] = 16 / (1 + torch.exp(-layer.contract.weight @ hidden))
    return bias


@pytest.mark.parametrize(("window", "pretrained_window"), [(2, 2), (3, 3), (4, 3), (3, 5)])
def test_every_pair_of_places_has_the_bias_of_the_formula(window, pretrained_window):
    layer = layer_of(window, pretrained_window)
    # The offsets are rounded to float32, as those that the networks were trained on.
    assert difference(layer(), bias_by_loops(layer, window, pretrained_window)) <= 1e-5


@pytest.mark.parametrize(("window", "pretrained_window"), WINDOWS)
def test_the_offsets_are_to_the_last_bit_those_of_transformers(window, pretrained_window):
    before = pretrained_window if pretrained_window > 1 else 0  # transformers divides 0 by 0 otherwise
    theirs = Swinv2SelfAttention(Swinv2Config(), HEADS, HEADS, window, [before, before])
    # The same operations on the same numbers.
    assert torch.equal(log_spaced_offsets(window, pretrained_window), theirs.relative_coords_table.flatten(0, 2))
    assert torch.equal(offset_of_pair(window), theirs.relative_position_index)


def test_the_largest_offset_of_the_trained_window_is_log2_9_over_3_and_that_of_a_larger_one_little_more():
    trained, larger = log_spaced_offsets(8, 8), log_spaced_offsets(16, 8)
    assert trained.max().item() == -trained.min().item() == pytest.approx(math.log2(9) / 3)
    assert larger.max().item() == pytest.approx(math.log2(1 + 8 * 15 / 7) / 3)


@pytest.mark.planted
def test_a_larger_window_keeps_the_biases_of_the_offsets_that_the_network_was_trained_with():
    small, large = layer_of(3), layer_of(5, pretrained_window=3)
    large.load_state_dict(small.state_dict())
    corner = [row * 5 + column for row in range(3) for column in range(3)]
    assert difference(large()[:, corner][..., corner], small()) <= 1e-12
    large_without = layer_of(5)
    large_without.load_state_dict(small.state_dict())
    assert difference(large_without()[:, corner][..., corner], small()) > 1e-2


def test_a_bias_lies_between_0_and_16_whatever_the_weights():
    layer = layer_of(4)
    for parameter in layer.parameters():
        parameter.data *= 100
    assert layer().min() >= 0
    assert layer().max() <= 16
    assert layer().max() - layer().min() > 10


@pytest.mark.planted
def test_a_changed_weight_and_another_trained_window_are_seen_by_the_comparison():
    layer = layer_of(4, 3)
    wanted = bias_by_loops(layer, 4, 3)
    assert parameters_that_do_not_matter(layer, lambda: difference(layer(), wanted)) == set()
    assert difference(layer(), bias_by_loops(layer, 4, 4)) > 1e-3
