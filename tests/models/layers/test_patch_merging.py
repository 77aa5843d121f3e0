import pytest
import torch
from transformers.models.swin.modeling_swin import SwinPatchMerging
from transformers.models.swinv2.modeling_swinv2 import Swinv2PatchMerging

from models.layers.patch_merging import PostNormMerging, PreNormMerging, neighbours
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter, randomised

WIDTH = 4
STRANGERS = {
    PreNormMerging: lambda: SwinPatchMerging(WIDTH),
    PostNormMerging: lambda: Swinv2PatchMerging((0, 0), WIDTH),
}
every_order = pytest.mark.parametrize("order", STRANGERS)


def layer_of(order, dtype=torch.float64):
    torch.manual_seed(0)
    return randomised(order(WIDTH, 1e-5), dtype)


def grid_of(height, width, dtype=torch.float64):
    return torch.randn(2, height, width, WIDTH, generator=torch.Generator().manual_seed(1)).to(dtype)


def merged_by_stranger(order, layer, grid):
    theirs = STRANGERS[order]().to(grid.dtype)
    theirs.load_state_dict(layer.state_dict())
    size = grid.shape[1:3]
    half = [(side + 1) // 2 for side in size]
    return theirs(grid.flatten(1, 2), size).unflatten(1, half)


@agrees_in_both_precisions
@every_order
@pytest.mark.parametrize("size", [(4, 4), (2, 6), (5, 4), (4, 3), (5, 5), (1, 1)], ids=str)
def test_it_equals_the_stranger_with_the_same_weights(order, size, dtype):
    layer, grid = layer_of(order, dtype), grid_of(*size, dtype)
    yield layer(grid), merged_by_stranger(order, layer, grid)


@pytest.mark.planted
@every_order
def test_a_change_of_any_parameter_is_seen(order):
    layer, grid = layer_of(order), grid_of(4, 4)
    wanted = merged_by_stranger(order, layer, grid)
    assert parameters_that_do_not_matter(layer, lambda: difference(layer(grid), wanted)) == set()


def test_neighbours_are_joined_column_by_column():
    grid = torch.arange(16.0).reshape(1, 4, 4, 1)
    assert neighbours(grid)[0, 0].tolist() == [[0, 4, 1, 5], [2, 6, 3, 7]]
    assert neighbours(grid[:, :3, :3])[0, 1].tolist() == [[8, 0, 9, 0], [10, 0, 0, 0]]
