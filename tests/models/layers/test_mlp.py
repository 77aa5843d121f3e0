import math

import pytest
import torch

from models.layers.mlp import MLP, GatedMLP
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter, randomised

FORMULAS = {
    "relu": lambda x: max(0.0, x),
    "gelu": lambda x: 0.5 * x * (1.0 + math.erf(x / math.sqrt(2.0))),
    "gelu_tanh": lambda x: 0.5 * x * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))),
    "gelu_sigmoid": lambda x: x / (1.0 + math.exp(-1.702 * x)),
    "silu": lambda x: x / (1.0 + math.exp(-x)),
}


def by_formula(layer, inputs, formula):
    first, second = layer.expand, layer.contract
    hidden = (inputs @ first.weight.T + first.bias).apply_(formula)
    return hidden @ second.weight.T + second.bias


def inputs_of(dtype):
    return torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0)).to(dtype)


@agrees_in_both_precisions
@pytest.mark.parametrize("activation", FORMULAS)
def test_it_equals_its_formula(activation, dtype):
    layer = randomised(MLP(4, 8, activation), dtype)
    inputs = inputs_of(dtype)
    yield layer(inputs), by_formula(layer, inputs, FORMULAS[activation])


def test_gelu_is_the_exact_one_and_not_the_approximation_by_tanh():
    layer, inputs = randomised(MLP(4, 8, "gelu"), torch.float64), inputs_of(torch.float64)
    wanted = by_formula(layer, inputs, FORMULAS["gelu_tanh"])
    assert 1e-6 < difference(layer(inputs), wanted) < 1e-2


@pytest.mark.planted
@pytest.mark.parametrize("activation", FORMULAS)
def test_every_parameter_is_seen_by_the_comparison_with_the_formula(activation):
    layer, inputs = randomised(MLP(4, 8, activation), torch.float64), inputs_of(torch.float64)
    wanted = by_formula(layer, inputs, FORMULAS[activation])
    assert parameters_that_do_not_matter(layer, lambda: difference(layer(inputs), wanted)) == set()


def gated_by_formula(layer, inputs, formula):
    gate, expand, contract = (linear.weight.T for linear in (layer.gate, layer.expand, layer.contract))
    return ((inputs @ gate).apply_(formula) * (inputs @ expand)) @ contract


@pytest.mark.planted
@agrees_in_both_precisions
@pytest.mark.parametrize("activation", FORMULAS)
def test_a_gated_layer_equals_its_formula_and_every_parameter_is_seen(activation, dtype):
    layer, inputs = randomised(GatedMLP(4, 8, activation), dtype), inputs_of(dtype)
    wanted = gated_by_formula(layer, inputs, FORMULAS[activation])
    yield layer(inputs), wanted
    # Far above the rounding of float32 as well: values are of the order of 1.
    assert parameters_that_do_not_matter(layer, lambda: difference(layer(inputs), wanted), 1e-3) == set()


def test_dropout_follows_both_linear_layers_and_rests_in_evaluation():
    torch.manual_seed(0)
    layer = MLP(64, 64, "relu", dropout=0.5).requires_grad_(False)
    for linear in (layer.expand, layer.contract):
        linear.weight.copy_(torch.eye(64))
        linear.bias.zero_()
    ones = torch.ones(64, 64)
    dropped = layer.train()(ones)
    assert dropped.unique().tolist() == [0.0, 4.0]  # kept twice, each time doubled
    assert (dropped > 0).double().mean().item() == pytest.approx(0.25, abs=0.03)
    assert torch.equal(layer.eval()(ones), ones)  # products with an identity round nothing
