import pytest
import torch

from attendant.errors import ConfigError
from models.layers.patch_embed import PatchEmbed
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter, randomised

SIDE, PATCH, CHANNELS, WIDTH = 12, 4, 3, 5


def pixels_of(dtype):
    return torch.randn(2, CHANNELS, SIDE, SIDE, generator=torch.Generator().manual_seed(0)).to(dtype)


def flattened_and_projected(layer, pixels):
    corners = [(top, left) for top in range(0, SIDE, PATCH) for left in range(0, SIDE, PATCH)]
    patches = [pixels[:, :, top : top + PATCH, left : left + PATCH].flatten(1) for top, left in corners]
    return torch.stack(patches, dim=1) @ layer.projection.weight.flatten(1).T + layer.projection.bias


@agrees_in_both_precisions
def test_the_convolution_equals_flattened_patches_times_a_matrix(dtype):
    layer, pixels = randomised(PatchEmbed(SIDE, PATCH, CHANNELS, WIDTH), dtype), pixels_of(dtype)
    tokens = layer(pixels)
    assert tokens.shape == (2, layer.count, WIDTH)
    assert layer.count == 9
    yield tokens, flattened_and_projected(layer, pixels)


@pytest.mark.planted
def test_every_parameter_is_seen_by_the_comparison_with_flattened_patches():
    layer, pixels = randomised(PatchEmbed(SIDE, PATCH, CHANNELS, WIDTH), torch.float64), pixels_of(torch.float64)
    wanted = flattened_and_projected(layer, pixels)
    assert parameters_that_do_not_matter(layer, lambda: difference(layer(pixels), wanted)) == set()


def test_a_pixel_changes_the_token_of_its_own_patch_only():
    layer, pixels = randomised(PatchEmbed(SIDE, PATCH, CHANNELS, WIDTH), torch.float64), pixels_of(torch.float64)
    before = layer(pixels)
    pixels[1, 2, 3, 4] += 1.0  # first row of patches, second column
    changed = (layer(pixels) != before).any(-1).nonzero().tolist()
    assert changed == [[1, 1]]


def test_an_image_that_does_not_divide_into_patches_is_refused():
    with pytest.raises(ConfigError, match="multiple of the patch size 5; found 12"):
        PatchEmbed(12, 5, CHANNELS, WIDTH)
