import pytest
import torch

from attendant.errors import ConfigError
from models.kernels.window_attention_reference import window_attention_reference
from models.layers.continuous_position_bias import ContinuousPositionBias
from models.layers.cosine_attention import ScaledCosine
from models.layers.relative_position_2d import OffsetBias
from models.layers.window_attention import WindowAttention, attend_in_windows_by
from models.layers.windows import Windows
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter, randomised
from tests.models.layers.windows_by_loops import WindowsByLoops

WIDTH, HEADS = 6, 2
CUTS = [Windows(4, 2, 0), Windows(4, 2, 1), Windows(5, 3, 1), Windows(3, 3, 0), Windows(3, 2, 0)]
every_cut = pytest.mark.parametrize("windows", CUTS, ids=str)
shifted_cut = pytest.mark.parametrize("windows", [cut for cut in CUTS if cut.shift], ids=str)


def dot_product(windows):
    return WindowAttention(WIDTH, HEADS, windows, OffsetBias(windows.size, HEADS))


def by_angle(windows):
    bias = ContinuousPositionBias(windows.size, HEADS, hidden=8)
    return WindowAttention(WIDTH, HEADS, windows, bias, ScaledCosine(HEADS), key_bias=False)


both_kinds = pytest.mark.parametrize("kind", [dot_product, by_angle])


def layer_of(kind, windows, dtype=torch.float64):
    torch.manual_seed(0)
    return randomised(kind(windows), dtype)


def grid_of(side, dtype=torch.float64, batch=2):
    return torch.randn(batch, side, side, WIDTH, generator=torch.Generator().manual_seed(1)).to(dtype)


def score(layer, query, key, head):
    if layer.cosine is None:
        return query @ key / len(query) ** 0.5
    scale = layer.cosine.log_scale[head, 0, 0].exp().clamp(max=100)
    return scale * (query @ key) / (query.norm() * key.norm()).clamp(min=1e-30)


def image_by_loops(layer, image):
    """One query, head and image at a time; places of the padding have features of zero, and are seen."""
    loops = WindowsByLoops(layer.windows.side, layer.windows.size, layer.windows.shift)
    zeros = torch.zeros(WIDTH, dtype=image.dtype)
    vectors = {place: image[place] if loops.is_real(place) else zeros for place in loops.places()}
    queries, keys, values = (
        {place: project(vector).chunk(HEADS) for place, vector in vectors.items()}
        for project in (layer.query, layer.key, layer.value)
    )
    bias, number = layer.position_bias(), {place: _number(loops, place) for place in loops.places()}
    out = torch.zeros_like(image)
    for place in filter(loops.is_real, loops.places()):
        seen = [other for other in loops.places() if loops.sees(place, other)]
        heads = []
        for head in range(HEADS):
            scores = [
                score(layer, queries[place][head], keys[other][head], head) + bias[head, number[place], number[other]]
                for other in seen
            ]
            weights = torch.stack(scores).softmax(0)
            heads.append(sum(weight * values[other][head] for weight, other in zip(weights, seen, strict=True)))
        out[place] = layer.output(torch.cat(heads))
    return out


def _number(loops, place):
    down, right = loops.inside(place)
    return down * loops.size + right


def grid_by_loops(layer, grid):
    return torch.stack([image_by_loops(layer, image) for image in grid])


@agrees_in_both_precisions
@both_kinds
@every_cut
def test_every_place_attends_to_those_it_sees_as_the_formula_has_it(kind, windows, dtype):
    layer, grid = layer_of(kind, windows, dtype), grid_of(windows.side, dtype)
    yield layer(grid), grid_by_loops(layer, grid)


@pytest.mark.planted
@both_kinds
@shifted_cut
def test_a_change_of_any_parameter_is_seen(kind, windows):
    layer, grid = layer_of(kind, windows), grid_of(windows.side)
    wanted = grid_by_loops(layer, grid)
    blind = parameters_that_do_not_matter(layer, lambda: difference(layer(grid), wanted))
    # A bias of the keys adds the same to every score of a query, which the softmax takes away again.
    assert blind == ({"key.bias"} if kind is dot_product else set())


@both_kinds
@every_cut
def test_a_place_is_moved_by_those_it_sees_and_by_no_other(kind, windows):
    layer, grid = layer_of(kind, windows), grid_of(windows.side, batch=1).requires_grad_()
    loops, out = WindowsByLoops(windows.side, windows.size, windows.shift), layer(grid)
    for place in filter(loops.is_real, loops.places()):
        (moved_by,) = torch.autograd.grad(out[0][place].sum(), grid, retain_graph=True)
        found = {tuple(other) for other in moved_by[0].abs().amax(-1).nonzero().tolist()}
        assert found == {other for other in loops.places() if loops.is_real(other) and loops.sees(place, other)}


@both_kinds
def test_opposite_edges_share_a_window_after_the_shift_and_do_not_see_each_other(kind):
    layer, grid = layer_of(kind, Windows(4, 2, 1)), grid_of(4)
    before = layer(grid)
    changed = grid.clone()
    changed[:, 0] += 1.0
    assert torch.equal(layer(changed)[:, 3], before[:, 3])  # each row by itself, in the same order of sums
    layer.mask = torch.ones_like(layer.mask)
    assert difference(layer(changed)[:, 3], layer(grid)[:, 3]) > 1e-3


@both_kinds
@shifted_cut
def test_who_observes_is_told_weights_that_can_be_laid_over_the_map(kind, windows):
    layer, grid, seen = layer_of(kind, windows), grid_of(windows.side), []
    unobserved = layer(grid)
    layer.attend.observer = seen.append
    assert difference(layer(grid), unobserved) <= 1e-12
    count, places = windows.count, windows.size**2
    (weights,) = seen
    assert weights.shape == (2, count * HEADS, places, places)
    laid = windows.join(weights.unflatten(1, (count, HEADS)).transpose(2, 3).flatten(3)).unflatten(-1, (HEADS, places))
    assert laid.shape == (2, windows.side, windows.side, HEADS, places)
    assert difference(laid.sum(-1), torch.ones_like(laid[..., 0])) <= 1e-12
    loops = WindowsByLoops(windows.side, windows.size, windows.shift)
    for place in filter(loops.is_real, loops.places()):
        wanted = {_number(loops, other) for other in loops.places() if loops.sees(place, other)}
        for head in range(HEADS):
            assert set(laid[0][place][head].nonzero().flatten().tolist()) == wanted


@both_kinds
def test_another_image_of_the_batch_changes_nothing_in_this_one(kind):
    layer, grid = layer_of(kind, Windows(5, 3, 1)), grid_of(5, batch=3)
    assert difference(layer(grid[[1]]), layer(grid)[[1]]) <= 1e-12


def test_a_width_that_the_heads_do_not_divide_is_refused():
    with pytest.raises(ConfigError, match="a width that is a multiple of 4 heads; found 6"):
        WindowAttention(WIDTH, 4, CUTS[0], OffsetBias(2, 4))


@both_kinds
@pytest.mark.parametrize("windows", CUTS, ids=str)
def test_a_kernel_that_reads_the_map_as_it_lies_gives_the_same_answer(kind, windows):
    layer, grid = layer_of(kind, windows), grid_of(windows.side)
    cut, asked = layer(grid), []

    def on_map(*arguments):
        asked.append(arguments)
        return window_attention_reference(*arguments)

    attend_in_windows_by(layer, on_map)
    assert difference(layer(grid), cut) < 1e-12 and len(asked) == 1
    attend_in_windows_by(layer, lambda *arguments: None)
    assert torch.equal(layer(grid), cut)  # the same computation twice, in one process


def test_while_somebody_observes_no_kernel_is_asked():
    layer, seen = layer_of(dot_product, CUTS[1]), []
    attend_in_windows_by(layer, pytest.fail)
    layer.attend.observer = seen.append
    layer(grid_of(4))
    assert len(seen) == 1
