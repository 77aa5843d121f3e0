from functools import partial

import pytest
import torch
from torch import nn

from models.layers.bottleneck import Bottleneck
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter, randomised
from tests.oracles.timm_models import timm

CHANNELS, WIDTH, GROUPS = 8, 32, 4
CASES = {
    "another width": (CHANNELS, 1),
    "another side": (WIDTH, 2),
    "both": (CHANNELS, 2),
    "the same shape": (WIDTH, 1),
}
every_case = pytest.mark.parametrize(("channels", "stride"), CASES.values(), ids=CASES)
PARTS = {"1": "narrow", "2": "spatial", "3": "widen"}


def block(channels, stride, dtype=torch.float64):
    torch.manual_seed(0)
    return randomised(Bottleneck(channels, WIDTH, stride, GROUPS), dtype)


def features_of(channels, dtype=torch.float64):
    return torch.randn(2, channels, 6, 6, generator=torch.Generator().manual_seed(0)).to(dtype)


def by_timm(ours, channels, stride, groups=GROUPS, norm_eps=1e-5):
    changes_shape = not isinstance(ours.shortcut, nn.Identity)
    theirs = timm.models.resnetv2.Bottleneck(
        channels,
        WIDTH,
        stride=stride,
        conv_layer=partial(timm.layers.StdConv2dSame, eps=1e-8),
        norm_layer=partial(timm.layers.GroupNormAct, num_groups=groups, eps=norm_eps),
        proj_layer=timm.models.resnetv2.DownsampleConv if changes_shape else None,
    )
    for number, part in PARTS.items():
        theirs.get_submodule(f"conv{number}").load_state_dict(getattr(ours, part).convolution.state_dict())
        theirs.get_submodule(f"norm{number}").load_state_dict(getattr(ours, part).norm.state_dict())
    if changes_shape:
        theirs.downsample.conv.load_state_dict(ours.shortcut.convolution.state_dict())
        theirs.downsample.norm.load_state_dict(ours.shortcut.norm.state_dict())
    return theirs.to(ours.widen.norm.weight.dtype).requires_grad_(False)


@agrees_in_both_precisions
@every_case
def test_it_equals_timms(channels, stride, dtype):
    ours, features = block(channels, stride, dtype), features_of(channels, dtype)
    yield ours(features), by_timm(ours, channels, stride)(features)


@pytest.mark.planted
@every_case
def test_every_parameter_is_seen_by_the_comparison_with_timm(channels, stride):
    ours, features = block(channels, stride), features_of(channels)
    wanted = by_timm(ours, channels, stride)(features)
    blind = parameters_that_do_not_matter(ours, lambda: difference(ours(features), wanted))
    assert blind == set()


@pytest.mark.planted
@pytest.mark.parametrize("other", [{"groups": 8}, {"norm_eps": 1e-6}], ids=str)
def test_other_groups_and_another_epsilon_are_seen_by_the_comparison_with_timm(other):
    ours, features = block(CHANNELS, 2), features_of(CHANNELS)
    assert difference(ours(features), by_timm(ours, CHANNELS, 2, **other)(features)) > 1e-7


@every_case
def test_the_shortcut_has_weights_only_where_the_shape_changes(channels, stride):
    assert isinstance(block(channels, stride).shortcut, nn.Identity) == (channels == WIDTH and stride == 1)
