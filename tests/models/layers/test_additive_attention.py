import numpy as np
import pytest
import torch
from torch import nn

from models.kernels.additive_attention_reference import additive_attention_reference
from models.layers.additive_attention import AdditiveAttention
from tests.models.agreement import (
    agrees_in_both_precisions,
    both_precisions,
    difference,
    parameters_that_do_not_matter,
    randomised,
)

BATCH, POSITIONS, STATE, ANNOTATION, WIDTH = 3, 5, 4, 6, 7
MASK = torch.tensor([[True] * 5, [True, True, True, False, False], [True, False, False, False, False]])


def layer_of(dtype):
    torch.manual_seed(0)
    return randomised(AdditiveAttention(STATE, ANNOTATION, WIDTH), dtype)


def inputs_of(dtype):
    generator = torch.Generator().manual_seed(1)
    shapes = (BATCH, STATE), (BATCH, POSITIONS, ANNOTATION)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def attention_by_loops(layer, state, annotations, mask):
    """The formula, one position at a time: context and weights."""
    w, u, v = (part.weight.numpy() for part in (layer.query, layer.key, layer.score))
    contexts, weights = np.zeros((BATCH, ANNOTATION)), np.zeros((BATCH, POSITIONS))
    for b in range(BATCH):
        seen = [j for j in range(POSITIONS) if mask[b, j]]
        scores = {j: float(v[0] @ np.tanh(w @ state[b] + u @ annotations[b, j])) for j in seen}
        total = sum(np.exp(score) for score in scores.values())
        for j in seen:
            weights[b, j] = np.exp(scores[j]) / total
            contexts[b] += weights[b, j] * annotations[b, j]
    return contexts, weights


def both(context, weights):
    return torch.cat([context, weights], dim=1).double()


def looped(layer, state, annotations, mask):
    parts = attention_by_loops(layer, state.numpy(), annotations.numpy(), mask.numpy())
    return both(*map(torch.from_numpy, parts))


def attended(layer, state, annotations, mask):
    return both(*layer(state, annotations, layer.keys(annotations), mask))


@agrees_in_both_precisions
def test_context_and_weights_are_what_the_formula_says(dtype):
    layer, (state, annotations) = layer_of(dtype), inputs_of(dtype)
    wanted = looped(layer, state, annotations, MASK)
    yield attended(layer, state, annotations, MASK), wanted


@pytest.mark.planted
def test_a_change_of_any_parameter_or_of_the_mask_is_seen_by_the_comparison():
    layer, (state, annotations) = layer_of(torch.float64), inputs_of(torch.float64)
    wanted = looped(layer, state, annotations, MASK)
    assert not parameters_that_do_not_matter(
        layer, lambda: difference(attended(layer, state, annotations, MASK), wanted)
    )
    other = MASK.clone()
    other[1, 3] = True
    assert difference(attended(layer, state, annotations, other), wanted) > 1e-3


@both_precisions
def test_a_source_of_padding_alone_gets_zeros(dtype):
    layer, (state, annotations) = layer_of(dtype), inputs_of(dtype)
    mask = MASK.clone()
    mask[1] = False
    assert (attended(layer, state, annotations, mask)[1] == 0).all()
    assert difference(attended(layer, state, annotations, mask), looped(layer, state, annotations, mask)) <= 2e-6


def test_what_stands_at_padding_does_not_matter():
    layer, (state, annotations) = layer_of(torch.float64), inputs_of(torch.float64)
    scrambled = torch.where(MASK[..., None], annotations, 1e6)
    # What is masked has a weight of exactly zero.
    assert torch.equal(attended(layer, state, annotations, MASK), attended(layer, state, scrambled, MASK))


def test_the_weights_of_a_source_add_up_to_one():
    layer, (state, annotations) = layer_of(torch.float64), inputs_of(torch.float64)
    _, weights = layer(state, annotations, layer.keys(annotations), MASK)
    assert difference(weights.sum(1), torch.ones(BATCH, dtype=torch.float64)) <= 1e-12
    assert (weights[~MASK] == 0).all()


def test_gradients_are_finite_also_where_a_source_is_padding_alone():
    torch.manual_seed(0)
    layer, (state, annotations) = AdditiveAttention(STATE, ANNOTATION, WIDTH), inputs_of(torch.float32)
    mask = MASK.clone()
    mask[2] = False
    attended(layer, state, annotations, mask).square().sum().backward()
    assert all(weight.grad.isfinite().all() and (weight.grad != 0).any() for weight in layer.parameters())


def test_keys_may_come_from_another_network_and_context_from_the_annotations_all_the_same():
    state, annotations = inputs_of(torch.float64)
    key = nn.Sequential(nn.Linear(ANNOTATION, WIDTH), nn.Tanh())
    layer = randomised(AdditiveAttention(STATE, ANNOTATION, WIDTH, key), torch.float64)
    keys = torch.tanh(annotations @ key[0].weight.T + key[0].bias)
    assert difference(layer.keys(annotations), keys) <= 1e-12
    scores = torch.tanh((state @ layer.query.weight.T)[:, None] + keys) @ layer.score.weight[0]
    weights = scores.softmax(1)
    context, found = layer(state, annotations, layer.keys(annotations), None)
    assert difference(found, weights) <= 1e-12
    assert difference(context, torch.einsum("bs,bsc->bc", weights, annotations)) <= 1e-12


def test_the_kernels_reference_gives_the_same_answer():
    layer, (state, annotations) = layer_of(torch.float64), inputs_of(torch.float64)
    keys = layer.keys(annotations)
    found = additive_attention_reference(layer.query(state), keys, layer.score.weight[0], annotations, MASK)
    assert difference(both(*layer(state, annotations, keys, MASK)), both(*found)) < 1e-12
