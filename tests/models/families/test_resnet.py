import dataclasses
import json

import pytest
import torch

from attendant.config import config_from_json, config_to_json
from attendant.errors import ConfigError
from models.families.resnet import ResNet, ResNetConfig

CONFIG = ResNetConfig(stem_width=8, blocks=(2, 1, 1), groups=4)


@pytest.mark.parametrize(
    ("blocks", "widths", "stride"),
    [((), (8,), 4), ((1,), (8, 32), 4), ((2, 1), (8, 32, 64), 8), ((1, 1, 1, 1), (8, 32, 64, 128, 256), 32)],
)
def test_the_features_have_the_widths_and_the_stride_that_the_configuration_says(blocks, widths, stride):
    config = dataclasses.replace(CONFIG, blocks=blocks)
    assert (config.widths, config.stride) == (widths, stride)
    features = ResNet(config)(torch.randn(1, 3, 64, 32))
    assert features.shape == (1, widths[-1], 64 // stride, 32 // stride)


def test_every_stage_has_the_blocks_asked_for_and_no_feature_is_negative():
    model = ResNet(CONFIG)
    assert [len(stage) for stage in model.stages] == [2, 1, 1]
    assert model(torch.randn(2, 3, 16, 16)).min() >= 0


def test_the_configuration_survives_json():
    assert config_from_json(ResNetConfig, json.loads(json.dumps(config_to_json(CONFIG)))) == CONFIG


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"channels": 0}, "channels to be a positive integer; found 0"),
        ({"stem_width": -8}, "stem_width to be a positive integer; found -8"),
        ({"groups": 2.0}, "groups to be a positive integer; found 2.0"),
        ({"blocks": (2, 0)}, r"blocks to be positive integers; found \(2, 0\)"),
        ({"blocks": (2, True)}, r"blocks to be positive integers; found \(2, True\)"),
        ({"blocks": 3}, "blocks to be positive integers; found 3"),
        ({"groups": 3}, "stem_width to be a multiple of 3 groups; found 8"),
    ],
    ids=str,
)
def test_a_configuration_that_no_backbone_can_have_is_refused(changes, expected):
    with pytest.raises(ConfigError, match=expected):
        dataclasses.replace(CONFIG, **changes)
