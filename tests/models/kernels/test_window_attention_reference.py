import pytest
import torch

from models.kernels.window_attention_reference import window_attention_reference
from models.layers.continuous_position_bias import ContinuousPositionBias
from models.layers.cosine_attention import ScaledCosine
from models.layers.padding import pad_map
from models.layers.relative_position_2d import OffsetBias
from models.layers.window_attention import WindowAttention
from models.layers.windows import windows_of
from tests.models.agreement import difference, randomised

HEADS, WIDTH, WINDOW = 3, 12, 4
SIDES = {"whole": 8, "padded": 10}


def layer_of(side, shifted, cosine):
    bias = ContinuousPositionBias(WINDOW, HEADS) if cosine else OffsetBias(WINDOW, HEADS)
    scaled = ScaledCosine(HEADS) if cosine else None
    layer = WindowAttention(WIDTH, HEADS, windows_of(side, WINDOW, shifted), bias, scaled)
    return randomised(layer, torch.float64)


def table_of(bias):
    """``[H, O]``: the entry of every offset, from the bias of the pairs of places that have it."""
    bias_HPP = bias()
    table = bias_HPP.new_zeros(HEADS, (2 * WINDOW - 1) ** 2)
    table[:, bias.pairs.flatten()] = bias_HPP.flatten(1)
    return table


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
@pytest.mark.parametrize("shifted", [False, True], ids=["still", "shifted"])
@pytest.mark.parametrize("cosine", [False, True], ids=["product", "cosine"])
def test_the_reference_equals_the_layer_of_swin(cosine, shifted, side):
    layer = layer_of(side, shifted, cosine)
    grid = torch.randn(2, side, side, WIDTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    padded = pad_map(grid, WINDOW)
    q, k, v = layer.query(padded), layer.key(padded), layer.value(padded)
    scales = layer.cosine.log_scale.clamp(max=torch.log(torch.tensor(100.0))).exp().flatten() if cosine else None
    attended = window_attention_reference(q, k, v, table_of(layer.position_bias), WINDOW, layer.windows.shift, scales)
    assert difference(layer.output(attended)[:, :side, :side], layer(grid)) < 1e-12


@pytest.mark.planted
def test_another_shift_is_seen_by_the_comparison():
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 1, 8, 8, WIDTH, generator=generator, dtype=torch.float64)
    table = torch.zeros(HEADS, 49)
    shifted, still = (window_attention_reference(q, k, v, table, WINDOW, shift) for shift in (2, 0))
    assert difference(shifted, still) > 1e-2
