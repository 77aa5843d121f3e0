import pytest
import torch
from torch import nn

from models.layers.padding import pad_image, pad_map, rounded_up


@pytest.mark.parametrize(
    ("side", "multiple", "wanted"), [(1, 3, 3), (3, 3, 3), (4, 3, 6), (6, 3, 6), (7, 1, 7), (2, 9, 9)]
)
def test_a_side_is_rounded_up_to_the_next_multiple(side, multiple, wanted):
    assert rounded_up(side, multiple) == wanted


@pytest.mark.parametrize(("height", "width"), [(6, 6), (5, 6), (6, 4), (7, 8)])
def test_a_map_keeps_its_places_and_has_zeros_below_and_on_the_right(height, width):
    grid = torch.randn(2, height, width, 4)
    padded = pad_map(grid, 3)
    assert padded.shape == (2, rounded_up(height, 3), rounded_up(width, 3), 4)
    assert torch.equal(padded[:, :height, :width], grid)
    assert padded[:, height:].count_nonzero() == padded[:, :, width:].count_nonzero() == 0


@pytest.mark.parametrize("size", [(8, 8), (7, 8), (8, 5), (9, 10)], ids=str)
def test_an_image_is_padded_as_torchs_padding_layer_pads_it(size):
    pixels = torch.randn(2, 3, *size)
    bottom, right = ((4 - side % 4) % 4 for side in size)
    assert torch.equal(pad_image(pixels, 4), nn.ZeroPad2d((0, right, 0, bottom))(pixels))


def test_what_already_fits_is_returned_itself():
    grid, pixels = torch.randn(1, 6, 3, 2), torch.randn(1, 3, 8, 4)
    assert pad_map(grid, 3) is grid
    assert pad_image(pixels, 4) is pixels
