import pytest
import torch

from models.layers.windows import Windows, windows_of
from tests.models.layers.windows_by_loops import WindowsByLoops

CUTS = [Windows(6, 3, 0), Windows(6, 3, 1), Windows(8, 4, 2), Windows(7, 3, 1), Windows(5, 4, 2), Windows(4, 4, 0)]
every_cut = pytest.mark.parametrize("windows", CUTS, ids=str)


def numbered(side):
    """A map in which every place is its row, its column and a 1 that no padding has."""
    along = torch.arange(side, dtype=torch.float64)
    rows, columns = torch.meshgrid(along, along, indexing="ij")
    return torch.stack([rows, columns, torch.ones_like(rows)], dim=-1)[None]


@every_cut
def test_joining_undoes_cutting(windows):
    grid = torch.randn(2, windows.side, windows.side, 5)
    assert torch.equal(windows.join(windows.cut(grid)), grid)  # numbers are moved, and none is computed


@every_cut
def test_every_place_falls_where_the_definition_puts_it(windows):
    loops = WindowsByLoops(windows.side, windows.size, windows.shift)
    cut = windows.cut(numbered(windows.side))[0]
    assert cut.shape == (windows.count, windows.size**2, 3)
    for place in loops.places():
        (row, column), (down, right) = loops.window(place), loops.inside(place)
        found = cut[row * windows.along + column, down * windows.size + right]
        assert found.tolist() == ([*place, 1] if loops.is_real(place) else [0, 0, 0])


@every_cut
def test_two_places_see_each_other_if_no_edge_came_between_them(windows):
    loops = WindowsByLoops(windows.side, windows.size, windows.shift)
    mask = windows.mask()
    wanted = torch.zeros_like(mask)
    for place in loops.places():
        row, column = loops.window(place)
        for other in loops.places():
            if loops.window(other) == (row, column):
                indices = (down * windows.size + right for down, right in map(loops.inside, (place, other)))
                wanted[(row * windows.along + column, *indices)] = loops.sees(place, other)
    assert torch.equal(mask, wanted)


def test_only_the_last_windows_of_a_row_or_column_have_something_to_hide():
    mask = Windows(9, 3, 1).mask().unflatten(0, (3, 3))
    assert mask[:2, :2].all()
    assert not mask[2].flatten(1).all(1).any()
    assert not mask[:, 2].flatten(1).all(1).any()


@pytest.mark.parametrize("side", [2, 3])
def test_a_window_is_no_larger_than_the_map_and_then_not_shifted(side):
    assert windows_of(side, 3, shifted=True) == windows_of(side, 3, shifted=False) == Windows(side, side, 0)


@pytest.mark.parametrize(("window", "shift"), [(1, 0), (2, 1), (3, 1), (4, 2), (7, 3)])
def test_a_window_smaller_than_the_map_is_shifted_by_half_of_it_rounded_down(window, shift):
    assert windows_of(8, window, shifted=True) == Windows(8, window, shift)
    assert windows_of(8, window, shifted=False) == Windows(8, window, 0)
