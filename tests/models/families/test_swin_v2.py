import dataclasses

import pytest
import torch

from attendant.config import config_from_json, config_to_json
from attendant.errors import ConfigError
from models.families.swin_v2 import SwinV2, SwinV2Config
from tests.models.agreement import agrees_in_both_precisions, difference, randomised
from tests.models.families.swin_weights import logits_of_timm, logits_of_transformers

CONFIG = SwinV2Config(
    image_size=48,
    classes=5,
    depths=(2, 2),
    heads=(1, 2),
    width=8,
    window=3,
    mlp_ratio=2,
    pretrained_windows=(2, 4),
)


def classifier(config=CONFIG, dtype=torch.float64):
    torch.manual_seed(0)
    return randomised(SwinV2(config), dtype)


def pixels_of(dtype=torch.float64):
    return torch.randn(2, 3, 48, 48, generator=torch.Generator().manual_seed(1)).to(dtype)


@agrees_in_both_precisions
@pytest.mark.parametrize("oracle", [logits_of_timm, logits_of_transformers])
def test_with_windows_other_than_the_trained_ones_it_equals_both_strangers(oracle, dtype):
    model, pixels = classifier(dtype=dtype), pixels_of(dtype)
    yield model(pixels), oracle(model, pixels)


def test_the_trained_windows_matter():
    model, other = classifier(), classifier(dataclasses.replace(CONFIG, pretrained_windows=None))
    other.load_state_dict(model.state_dict())
    assert difference(model(pixels_of()), other(pixels_of())) > 1e-4


def test_weights_of_small_windows_serve_large_ones():
    small, large = classifier(), classifier(dataclasses.replace(CONFIG, window=6, pretrained_windows=(3, 3)))
    large.load_state_dict(small.state_dict())
    assert large(pixels_of()).isfinite().all()


@pytest.mark.parametrize("config", [CONFIG, dataclasses.replace(CONFIG, pretrained_windows=None)])
def test_a_configuration_survives_json(config):
    assert config_from_json(SwinV2Config, config_to_json(config)) == config


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        ((-1, 3), r"pretrained_windows to be integers, zero or more, one a stage; found \(-1, 3\)"),
        (3, "pretrained_windows to be integers, zero or more, one a stage; found 3"),
        ((3,), r"pretrained_windows of 2 stages, as of depths; found \(3,\)"),
    ],
)
def test_trained_windows_that_no_model_can_have_are_refused(windows, expected):
    with pytest.raises(ConfigError, match=expected):
        dataclasses.replace(CONFIG, pretrained_windows=windows)
