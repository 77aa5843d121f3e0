import pytest
import torch

from models.layers.relative_position_2d import OffsetBias, offset_of_pair, offsets
from tests.models.agreement import difference, parameters_that_do_not_matter, randomised

HEADS = 3
every_window = pytest.mark.parametrize("window", [1, 2, 3, 5])


def bias_by_loops(weight, window):
    bias = torch.zeros(HEADS, window**2, window**2, dtype=weight.dtype)
    places = [(row, column) for row in range(window) for column in range(window)]
    for p, (row, column) in enumerate(places):
        for q, (other_row, other_column) in enumerate(places):
            down, right = row - other_row + window - 1, column - other_column + window - 1
            bias[:, p, q] = weight[(2 * window - 1) * down + right]
    return bias


@every_window
def test_every_pair_of_places_has_the_bias_of_its_offset(window):
    layer = randomised(OffsetBias(window, HEADS), torch.float64)
    assert torch.equal(layer(), bias_by_loops(layer.weight, window))  # numbers are moved, and none is computed


@every_window
def test_the_rows_of_the_table_are_the_offsets_in_their_order(window):
    along = range(1 - window, window)
    assert offsets(window).tolist() == [[down, right] for down in along for right in along]


def test_pairs_that_are_as_far_apart_share_a_bias_and_the_way_back_has_another():
    pairs = offset_of_pair(3)
    assert pairs[0, 1] == pairs[1, 2] == pairs[7, 8]
    assert pairs[0, 1] != pairs[1, 0]
    assert pairs[0, 1] != pairs[0, 3]


def test_every_row_of_the_table_is_used():
    assert offset_of_pair(4).unique().tolist() == list(range(7**2))


@pytest.mark.planted
def test_a_changed_table_is_seen_by_the_comparison():
    layer = randomised(OffsetBias(3, HEADS), torch.float64)
    wanted = bias_by_loops(layer.weight, 3)
    assert parameters_that_do_not_matter(layer, lambda: difference(layer(), wanted)) == set()
    assert difference(layer().mT, wanted) > 0.1
