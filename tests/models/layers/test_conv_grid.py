import dataclasses

import pytest
import torch

from attendant.errors import ConfigError
from models.layers.conv_grid import ConvGrid, ConvGridConfig
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter, randomised
from tests.models.layers.conv_grid_by_loops import grid_by_loops

CONFIG = ConvGridConfig(widths=(4, 5, 6), depths=(1, 2, 1))
SIDE = 8


def layer_of(dtype=torch.float64):
    torch.manual_seed(0)
    return randomised(ConvGrid(CONFIG, channels=3), dtype)


def pixels_of(dtype=torch.float64):
    return torch.randn(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1)).to(dtype)


def looped(layer, pixels):
    weights = [weight.numpy() for weight in layer.parameters()]
    rows = [grid_by_loops(weights, CONFIG.depths, image) for image in pixels.numpy()]
    return torch.stack([torch.from_numpy(row) for row in rows])


@agrees_in_both_precisions
def test_the_annotations_are_what_the_formulas_say_row_by_row(dtype):
    layer, pixels = layer_of(dtype), pixels_of(dtype)
    annotations = layer(pixels)
    assert annotations.shape == (2, (SIDE // CONFIG.stride) ** 2, CONFIG.width)
    yield annotations, looped(layer, pixels)


@pytest.mark.planted
def test_a_change_of_any_parameter_is_seen_by_the_comparison():
    layer, pixels = layer_of(), pixels_of()
    wanted = looped(layer, pixels)
    assert not parameters_that_do_not_matter(layer, lambda: difference(layer(pixels), wanted))


def test_vgg_19_without_its_head_has_the_published_parameters_and_a_grid_of_14_by_14():
    config = ConvGridConfig()
    with torch.device("meta"):
        layer = ConvGrid(config, channels=3)
        assert layer(torch.zeros(1, 3, 224, 224)).shape == (1, 196, 512)
    # Simonyan and Zisserman print 144 million, of which 123,642,856 are in the three layers that are not here.
    assert sum(weight.numel() for weight in layer.parameters()) == 143_667_240 - 123_642_856
    assert (config.stride, config.width) == (16, 512)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"widths": (4, 0, 6)}, "widths to be positive integers; found"),
        ({"widths": [4, 5, 6]}, "widths to be positive integers; found"),
        ({"depths": ()}, "depths to be positive integers; found"),
        ({"depths": (1, 2)}, "a width and a depth for each stage; found"),
    ],
    ids=str,
)
def test_a_configuration_that_no_network_can_have_is_refused(changes, expected):
    with pytest.raises(ConfigError, match=expected):
        dataclasses.replace(CONFIG, **changes)
