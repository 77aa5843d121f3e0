from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from models.layers.std_conv import StdConv, max_pool, pad_same
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter, randomised
from tests.oracles.timm_models import timm

CHANNELS, WIDTH = 3, 4
# Of every convolution of a hybrid, at even and odd sides.
CASES = [(7, 2, 12), (7, 2, 9), (3, 1, 6), (3, 1, 5), (3, 2, 6), (3, 2, 7), (1, 1, 5), (1, 2, 6), (1, 2, 5)]
every_case = pytest.mark.parametrize(("kernel", "stride", "side"), CASES)


def features_of(side, dtype=torch.float64, channels=CHANNELS):
    return torch.randn(2, channels, side, side + 1, generator=torch.Generator().manual_seed(0)).to(dtype)


def convolution(kernel, stride, dtype=torch.float64):
    torch.manual_seed(0)
    return randomised(StdConv(CHANNELS, WIDTH, kernel, stride), dtype)


def by_timm(layer, kernel, stride, eps=1e-8):
    theirs = timm.layers.StdConv2dSame(CHANNELS, WIDTH, kernel, stride, eps=eps)
    theirs.load_state_dict(layer.state_dict())
    return theirs.to(layer.weight.dtype).requires_grad_(False)


@agrees_in_both_precisions
@every_case
def test_it_equals_timms(kernel, stride, side, dtype):
    layer, features = convolution(kernel, stride, dtype), features_of(side, dtype) / (2 * kernel)
    found = layer(features)
    assert found.shape[-2:] == (-(-side // stride), -(-(side + 1) // stride))
    yield found, by_timm(layer, kernel, stride)(features)


@pytest.mark.planted
@every_case
def test_another_epsilon_is_seen_by_the_comparison_with_timm(kernel, stride, side):
    layer, features = convolution(kernel, stride), features_of(side)
    assert difference(layer(features), by_timm(layer, kernel, stride, eps=1e-6)(features)) > 1e-8


@pytest.mark.planted
def test_every_parameter_is_seen_by_the_comparison_with_timm():
    layer, features = convolution(3, 2), features_of(6)
    wanted = by_timm(layer, 3, 2)(features)
    assert parameters_that_do_not_matter(layer, lambda: difference(layer(features), wanted)) == set()


def test_it_equals_its_formula_written_as_loops():
    layer, features = convolution(3, 2), features_of(4)
    weights, padded = layer.weight.numpy(), np.pad(features.numpy(), ((0, 0), (0, 0), (0, 1), (1, 1)))
    found = layer(features)
    assert found.shape == (2, WIDTH, 2, 3)
    for row, out, top, left in np.ndindex(*found.shape):
        window = padded[row, :, 2 * top : 2 * top + 3, 2 * left : 2 * left + 3]
        standardised = (weights[out] - weights[out].mean()) / (weights[out].var() + 1e-8) ** 0.5
        assert abs((window * standardised).sum() - found[row, out, top, left].item()) <= 1e-12


@pytest.mark.parametrize(("factor", "shift"), [(3.0, 0.0), (1.0, -2.0), (0.5, 7.0)])
def test_a_scale_and_a_shift_of_the_weights_change_nothing(factor, shift):
    layer, features = convolution(3, 1), features_of(5)
    before = layer(features)
    layer.weight.mul_(factor).add_(shift)
    assert difference(layer(features), before) <= 1e-6  # not exactly nothing, because of ε


def test_of_an_odd_padding_the_larger_part_is_behind():
    padded = pad_same(torch.ones(1, 1, 4, 5), 3, 2)
    assert padded[0, 0].tolist() == [
        [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0],
        [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0],
        [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0],
        [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    ]


@pytest.mark.parametrize("side", [4, 5, 6, 7, 12])
def test_the_pool_equals_timms_and_never_sees_the_padding(side):
    features = features_of(side) - 9  # all negative: a zero around them would win
    theirs = timm.layers.create_pool2d("max", kernel_size=3, stride=2, padding="same")
    assert torch.equal(max_pool(features), theirs(features))  # numbers are moved, and none is computed
    assert max_pool(features).max() < 0


@pytest.mark.planted
@pytest.mark.parametrize("padding", [(1, 1, 1, 1), (1, 0, 1, 0)], ids=["both sides", "in front"])
def test_another_padding_of_the_pool_or_of_the_convolution_is_seen(padding):
    features, layer = features_of(7, channels=CHANNELS)[..., :6, :6], convolution(3, 2)
    elsewhere = F.pad(features, padding)
    pooled = partial(F.max_pool2d, kernel_size=3, stride=2)
    assert difference(pooled(F.pad(features, padding, value=-torch.inf)), max_pool(features)) > 0.1
    theirs = by_timm(layer, 3, 2)
    theirs.same_pad = False
    assert difference(theirs(elsewhere), layer(features)) > 0.1
