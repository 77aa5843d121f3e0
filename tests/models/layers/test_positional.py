import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.layers.positional import LearnedPositions, SinusoidalPositions, sinusoids
from tests.models.agreement import difference

FLOAT32_ROUNDING = 2.0**-24  # of a number in [-1, 1]
LENGTH, WIDTH = 600, 16
TABLE = sinusoids(LENGTH, WIDTH).double()


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


def test_positions_are_looked_up_row_by_row_whatever_their_order():
    positions = torch.tensor([[0, 5, 2], [7, 7, 1]])
    found = SinusoidalPositions(8, WIDTH)(positions)
    assert torch.equal(found, sinusoids(8, WIDTH)[positions])


def test_the_fixed_table_is_not_stored_in_checkpoints():
    assert SinusoidalPositions(8, WIDTH).state_dict() == {}


def test_a_position_behind_the_table_is_refused():
    with pytest.raises(IndexError, match="index out of range"):
        SinusoidalPositions(8, WIDTH)(torch.tensor([[8]]))


def test_learned_positions_are_added_to_every_row_of_the_batch():
    layer = LearnedPositions(3, 2, deviation=0.5)
    tokens = torch.arange(12.0).view(2, 3, 2)
    out = layer(tokens)
    assert all(torch.equal(out[row], tokens[row] + layer.table[0]) for row in range(2))
    assert list(layer.state_dict()) == ["table"]


@pytest.mark.parametrize("deviation", [0.02, 0.5])
def test_learned_positions_begin_with_the_deviation_asked_for(deviation):
    torch.manual_seed(0)
    assert LearnedPositions(100, 100, deviation).table.std().item() == pytest.approx(deviation, rel=0.03)
