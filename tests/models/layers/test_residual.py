from itertools import permutations

import pytest
import torch
from torch import nn

from models.layers.residual import PostNorm, PreNorm, ResPostNorm
from tests.models.agreement import agrees_in_both_precisions, difference, randomised

WIDTH, EPS = 8, 1e-3
ORDERS = {
    PostNorm: lambda x, f, norm: norm(x + f(x)),
    PreNorm: lambda x, f, norm: x + f(norm(x)),
    ResPostNorm: lambda x, f, norm: x + norm(f(x)),
}
every_order = pytest.mark.parametrize("order", ORDERS)


def norm_by_formula(layer, eps=EPS):
    def norm(x):
        centred = x - x.mean(-1, keepdim=True)
        variance = (centred**2).mean(-1, keepdim=True)
        return centred / (variance + eps).sqrt() * layer.norm.weight + layer.norm.bias

    return norm


def inputs_of(dtype):
    return torch.randn(2, 3, WIDTH, generator=torch.Generator().manual_seed(0)).to(dtype)


@agrees_in_both_precisions
@every_order
def test_sublayer_residual_and_norm_stand_in_the_order_of_the_formula(order, dtype):
    layer, inputs = randomised(order(WIDTH, EPS), dtype), inputs_of(dtype)
    wanted = ORDERS[order](inputs, torch.sin, norm_by_formula(layer))
    yield layer(inputs, torch.sin), wanted


@pytest.mark.planted
@pytest.mark.parametrize(("order", "other"), list(permutations(ORDERS, 2)))
def test_the_other_order_is_another_function(order, other):
    layer, inputs = randomised(order(WIDTH, EPS), torch.float64), inputs_of(torch.float64)
    assert difference(layer(inputs, torch.sin), ORDERS[other](inputs, torch.sin, norm_by_formula(layer))) > 0.1


@pytest.mark.planted
@every_order
def test_another_epsilon_is_seen_by_the_comparison_with_the_formula(order):
    layer, inputs = randomised(order(WIDTH, EPS), torch.float64), inputs_of(torch.float64)
    wanted = ORDERS[order](inputs, torch.sin, norm_by_formula(layer, eps=2 * EPS))
    assert difference(layer(inputs, torch.sin), wanted) > 1e-5


@every_order
def test_dropout_falls_on_the_sublayer_and_never_on_the_residual(order):
    torch.manual_seed(0)
    layer = order(WIDTH, EPS, dropout=0.5)
    layer.norm = nn.Identity()
    inputs = torch.full((64, WIDTH), 10.0)
    assert layer.train()(inputs, torch.ones_like).unique().tolist() == [10.0, 12.0]
    assert layer.eval()(inputs, torch.ones_like).unique().tolist() == [11.0]


def test_in_res_post_norm_the_norm_lies_behind_the_dropout():
    torch.manual_seed(0)
    layer, inputs = ResPostNorm(WIDTH, EPS, dropout=0.5).double().train(), inputs_of(torch.float64)
    added = layer(inputs, torch.sin) - inputs
    assert difference(added.mean(-1), torch.zeros_like(added[..., 0])) <= 1e-12
    assert difference(added, layer.eval()(inputs, torch.sin) - inputs) > 0.1
