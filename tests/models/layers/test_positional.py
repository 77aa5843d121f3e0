import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.bart.modeling_bart import BartLearnedPositionalEmbedding
from transformers.models.deit.modeling_deit import DeiTConfig, DeiTEmbeddings
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
from transformers.models.vit.modeling_vit import ViTConfig, ViTEmbeddings

from attendant.errors import ConfigError
from models.layers.positional import (
    LearnedPositions,
    LearnedPositionTable,
    SinusoidalPositions,
    resized_positions,
    sinusoids,
)
from tests.models.agreement import agrees_in_both_precisions, difference, rounding_tolerance
from tests.oracles.timm_models import timm

FLOAT32_ROUNDING = 2.0**-24  # of a number in [-1, 1]
LENGTH, WIDTH = 600, 16
TABLE = sinusoids(LENGTH, WIDTH).double()
every_layout = pytest.mark.parametrize("layout", ["interleaved", "concatenated"])


def test_the_table_of_four_dimensions_is_that_of_the_paper_by_hand():
    by_hand = [
        [0.0, 1.0, 0.0, 1.0],
        [0.8414710, 0.5403023, 0.0099998, 0.9999500],
        [0.9092974, -0.4161468, 0.0199987, 0.9998000],
    ]
    assert difference(sinusoids(3, 4), torch.tensor(by_hand)) < 1e-7


@pytest.mark.parametrize("width", [2, 5, 16, 512])
def test_every_entry_is_the_formula_rounded_once_to_float32(width):
    table = sinusoids(513, width)
    assert (table.dtype, table.shape) == (torch.float32, (513, width))
    for position in (0, 1, 7, 512):
        for column in range(width):
            angle = position / 10000 ** (2 * (column // 2) / width)
            wanted = math.cos(angle) if column % 2 else math.sin(angle)
            assert abs(table[position, column].item() - wanted) <= FLOAT32_ROUNDING


def test_the_shortest_wavelength_is_two_pi():
    positions = torch.arange(LENGTH, dtype=torch.float64)
    phase = torch.atan2(TABLE[:, 0], TABLE[:, 1])
    turns = (positions - phase) / (2 * math.pi)
    assert difference(turns, turns.round()) < 1e-7


@given(position=st.integers(0, 299), step=st.integers(0, 300))
def test_a_step_rotates_every_pair_of_dimensions_by_the_same_angle_wherever_it_begins(position, step):
    sines, cosines = TABLE[position].view(-1, 2).unbind(-1)
    angle = step / 10000 ** (torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)
    rotated = [sines * angle.cos() + cosines * angle.sin(), cosines * angle.cos() - sines * angle.sin()]
    assert difference(TABLE[position + step], torch.stack(rotated, dim=-1).flatten()) <= 3 * FLOAT32_ROUNDING


def test_every_wavelength_is_that_of_the_formula_up_to_just_below_ten_thousand_times_two_pi():
    phase = torch.atan2(TABLE[1, 0::2], TABLE[1, 1::2])  # of position 1: the angle by which a step turns
    wavelengths = 2 * math.pi / phase
    wanted = torch.tensor([2 * math.pi * 10000 ** (i / WIDTH) for i in range(0, WIDTH, 2)], dtype=torch.float64)
    assert difference(wavelengths / wanted, torch.ones(WIDTH // 2)) < 1e-6


@every_layout
def test_every_position_is_unique_and_bounded(layout):
    table = sinusoids(LENGTH, WIDTH, layout).double()
    assert table.abs().max() <= 1
    assert difference((table**2).sum(1), torch.full((LENGTH,), WIDTH / 2)) < 1e-6
    distances = torch.cdist(table, table) + torch.eye(LENGTH) * 9
    assert distances.min() > 0.9


@pytest.mark.parametrize("width", [2, 5, 16, 512])
def test_the_concatenated_layout_equals_that_of_marian_to_the_last_bit(width):
    theirs = MarianSinusoidalPositionalEmbedding(30, width).create_weight()
    assert torch.equal(sinusoids(30, width, "concatenated"), theirs)  # float64 rounded to float32: its last bit is lost


@pytest.mark.planted
def test_the_other_layout_is_seen_by_the_comparison_with_marian():
    theirs = MarianSinusoidalPositionalEmbedding(30, WIDTH).create_weight()
    assert difference(sinusoids(30, WIDTH, "interleaved"), theirs) > 1


def test_the_concatenated_layout_has_the_sines_first_and_the_cosines_behind_them():
    table, halves = sinusoids(30, WIDTH), sinusoids(30, WIDTH, "concatenated").chunk(2, dim=1)
    assert torch.equal(table, torch.stack(halves, dim=-1).flatten(1))  # numbers are moved, and none is computed


def test_another_layout_is_refused():
    with pytest.raises(ConfigError, match=r"a layout of .*; found 'half'"):
        sinusoids(8, WIDTH, "half")


@every_layout
def test_positions_are_looked_up_row_by_row_whatever_their_order(layout):
    positions = torch.tensor([[0, 5, 2], [7, 7, 1]])
    found = SinusoidalPositions(8, WIDTH, layout)(positions)
    assert torch.equal(found, sinusoids(8, WIDTH, layout)[positions])  # numbers are moved, and none is computed


def test_the_fixed_table_is_not_stored_in_checkpoints():
    assert SinusoidalPositions(8, WIDTH).state_dict() == {}


def test_a_position_behind_the_table_is_refused():
    with pytest.raises(IndexError, match="index out of range"):
        SinusoidalPositions(8, WIDTH)(torch.tensor([[8]]))


def compared_with_bart(offset, dtype):
    """The rows of our table, which has the weights of BART's, at positions 3 to 7; and those of BART's."""
    torch.manual_seed(0)
    theirs = BartLearnedPositionalEmbedding(8, WIDTH).to(dtype)
    ours = LearnedPositionTable(10 - offset, WIDTH, offset).to(dtype)
    ours.load_state_dict(theirs.state_dict())
    wanted = theirs(torch.zeros(2, 5), past_key_values_length=3)
    return ours(torch.arange(3, 8).expand(2, 5)), wanted


@agrees_in_both_precisions
def test_a_learned_table_with_two_unused_rows_equals_that_of_bart(dtype):
    yield compared_with_bart(2, dtype)


@pytest.mark.planted
@pytest.mark.parametrize("offset", [0, 1])
def test_another_offset_is_seen_by_the_comparison_with_bart(offset):
    assert difference(*compared_with_bart(offset, torch.float64)) > 0.1


@pytest.mark.parametrize("offset", [0, 2])
def test_a_learned_table_has_a_row_a_position_behind_its_unused_ones(offset):
    layer = LearnedPositionTable(8, WIDTH, offset)
    assert [(name, weight.shape) for name, weight in layer.named_parameters()] == [("weight", (8 + offset, WIDTH))]
    layer(torch.arange(8)[None]).sum().backward()
    assert layer.weight.grad[:, 0].tolist() == [0.0] * offset + [1.0] * 8
    with pytest.raises(IndexError, match="index out of range"):
        layer(torch.tensor([[8]]))


@pytest.mark.parametrize("deviation", [0.02, 0.5])
def test_a_learned_table_begins_with_the_deviation_asked_for(deviation):
    torch.manual_seed(0)
    assert LearnedPositionTable(100, 100, deviation=deviation).weight.std().item() == pytest.approx(deviation, rel=0.03)


def test_learned_positions_are_added_to_every_row_of_the_batch():
    layer = LearnedPositions(3, 2, deviation=0.5)
    tokens = torch.arange(12.0).view(2, 3, 2)
    out = layer(tokens)
    # The same operations on the same numbers.
    assert all(torch.equal(out[row], tokens[row] + layer.table[0]) for row in range(2))
    assert list(layer.state_dict()) == ["table"]


@pytest.mark.parametrize("deviation", [0.02, 0.5])
def test_learned_positions_begin_with_the_deviation_asked_for(deviation):
    torch.manual_seed(0)
    assert LearnedPositions(100, 100, deviation).table.std().item() == pytest.approx(deviation, rel=0.03)


GRIDS = [(3, 3), (2, 2), (5, 5), (9, 4), (1, 7)]  # of a table of 4 × 4 patches: smaller, larger, other shapes
every_grid = pytest.mark.parametrize("grid", GRIDS, ids=str)
THEIR_EMBEDDINGS = {1: (ViTConfig, ViTEmbeddings), 2: (DeiTConfig, DeiTEmbeddings)}


def square_table(tokens_in_front, dtype=torch.float64, patches=16):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(1, tokens_in_front + patches, WIDTH, generator=generator).to(dtype)


def resized_by_transformers(table, tokens_in_front, grid):
    config, embeddings = THEIR_EMBEDDINGS[tokens_in_front]
    theirs = embeddings(config(image_size=16, patch_size=4, hidden_size=WIDTH, num_attention_heads=2)).to(table.dtype)
    theirs.requires_grad_(False).position_embeddings.copy_(table)
    anything = torch.zeros(1, tokens_in_front + math.prod(grid), WIDTH)
    return theirs.interpolate_pos_encoding(anything, 4 * grid[0], 4 * grid[1])


@agrees_in_both_precisions
@pytest.mark.parametrize("tokens_in_front", [1, 2], ids=["ViT", "DeiT"])
@every_grid
def test_resized_positions_equal_those_of_transformers(grid, tokens_in_front, dtype):
    table = square_table(tokens_in_front, dtype)
    found = resized_positions(table, tokens_in_front, grid)
    yield found, resized_by_transformers(table, tokens_in_front, grid)


@pytest.mark.planted
@pytest.mark.parametrize("tokens_in_front", [0, 1, 2])
@every_grid
def test_resized_positions_equal_those_of_timm_without_its_smoothing_and_not_with_it(grid, tokens_in_front):
    table = square_table(tokens_in_front, torch.float32)  # it interpolates in float32 whatever the table's type
    resample = timm.layers.resample_abs_pos_embed
    found = resized_positions(table, tokens_in_front, grid)
    plain = resample(table, grid, num_prefix_tokens=tokens_in_front, antialias=False)
    exact = resized_positions(table.double(), tokens_in_front, grid)  # which is equal to that of transformers
    assert difference(plain, exact) <= rounding_tolerance(found, exact)
    assert difference(found, resample(table, grid, num_prefix_tokens=tokens_in_front, antialias=True)) > 0.05


@pytest.mark.parametrize("tokens_in_front", [0, 1, 2])
def test_resizing_keeps_the_rows_in_front_and_to_the_same_grid_all_rows(tokens_in_front):
    table = square_table(tokens_in_front)
    larger = resized_positions(table, tokens_in_front, (6, 5))
    assert larger.shape == (1, tokens_in_front + 30, WIDTH)
    # Numbers are moved, and none is computed.
    assert torch.equal(larger[:, :tokens_in_front], table[:, :tokens_in_front])
    assert difference(resized_positions(table, tokens_in_front, (4, 4)), table) <= 1e-12


@pytest.mark.parametrize("tokens_in_front", [0, 1, 3])
def test_another_number_of_rows_in_front_is_no_square_of_patches(tokens_in_front):
    with pytest.raises(ConfigError, match=f"positions of a square of patches; found {18 - tokens_in_front}"):
        resized_positions(square_table(2), tokens_in_front, (5, 5))


def test_resizing_takes_rows_for_rows_and_columns_for_columns():
    rows, columns = torch.meshgrid(torch.arange(4.0), torch.arange(4.0), indexing="ij")
    table = torch.stack([rows, columns], dim=-1).reshape(1, 16, 2).double()
    rows, columns = resized_positions(table, 0, (8, 8)).reshape(8, 8, 2).unbind(-1)
    assert difference(rows, columns.T) <= 1e-12
    assert (rows.diff(dim=0) > 0).all()
    assert difference(rows + rows.flip(0), torch.full((8, 8), 3.0)) <= 1e-12
