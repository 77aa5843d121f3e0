"""Projections of one input as one product: the same numbers, and each layer keeps its own weights."""

import pytest
import torch
from torch import nn

from models.layers.attention import MultiHeadAttention
from models.layers.joined import JoinedLinear, join_projections
from models.layers.mlp import GatedMLP
from tests.models.agreement import difference

INPUTS = torch.randn(2, 5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("bias", [False, True])
def test_the_products_are_those_of_the_layers_and_parts_of_one_tensor(bias):
    layers = [nn.Linear(12, width, bias=bias).double() for width in (8, 3, 4)]
    apart = [layer(INPUTS) for layer in layers]
    found = JoinedLinear(*layers)(INPUTS)
    assert max(difference(one, other) for one, other in zip(found, apart, strict=True)) < 1e-12
    assert len({part.untyped_storage().data_ptr() for part in found}) == 1


def test_each_layer_keeps_its_weights_in_the_common_piece():
    layers = [nn.Linear(12, width).double() for width in (8, 3)]
    before = [layer(INPUTS) for layer in layers]
    joined = JoinedLinear(*layers)
    pieces = {layer.weight.untyped_storage().data_ptr() for layer in layers}
    assert pieces == {joined.weight.untyped_storage().data_ptr()}
    assert max(difference(layer(INPUTS), one) for layer, one in zip(layers, before, strict=True)) < 1e-12


@pytest.mark.parametrize(
    "make",
    [
        lambda: GatedMLP(12, 20, "silu"),
        lambda: GatedMLP(12, 20, "gelu", bias=True),
        lambda: MultiHeadAttention(12, 4, kv_heads=2),
        lambda: MultiHeadAttention(12, 4, bias=False, query_key_eps=1e-6),
    ],
)
@torch.no_grad()
def test_a_layer_computes_the_same_joined(make):
    layer = make().double()
    call = (lambda: layer(INPUTS, INPUTS)) if isinstance(layer, MultiHeadAttention) else (lambda: layer(INPUTS))
    apart = call()
    join_projections(layer)
    assert layer.joined is not None
    before = layer.joined
    assert difference(call(), apart) < 1e-12
    join_projections(layer)  # as for the second graph that shares it
    assert layer.joined is before


@torch.no_grad()
def test_a_source_of_another_width_and_biases_of_some_are_left_apart():
    cross = MultiHeadAttention(12, 4, source_width=6)
    mixed = MultiHeadAttention(12, 4)
    mixed.key.bias = None
    for layer in (cross, mixed):
        join_projections(layer)
        assert layer.joined is None
