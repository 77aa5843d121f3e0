import numpy as np
import pytest
import torch
from torch import nn
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from models.layers.norm import norm
from tests.models.agreement import (
    EXACT,
    agrees_in_both_precisions,
    difference,
    parameters_that_do_not_matter,
    randomised,
)
from tests.models.float64_oracles import oracle_precision

WIDTH, EPS = 8, 1e-3
every_kind = pytest.mark.parametrize("kind", ["layer", "rms"])


def inputs_of(dtype):
    return 1 + 2 * torch.randn(2, 3, WIDTH, generator=torch.Generator().manual_seed(0)).to(dtype)


def by_loops(layer, kind, inputs, eps=EPS):
    out = np.empty(inputs.shape)
    for token in np.ndindex(*inputs.shape[:-1]):
        x = inputs[token].numpy()
        centred = x - (sum(x) / WIDTH if kind == "layer" else 0)
        size = (sum(centred * centred) / WIDTH + eps) ** 0.5
        out[token] = centred / size * layer.weight.numpy()
        out[token] += layer.bias.numpy() if kind == "layer" else 0
    return torch.from_numpy(out)


@agrees_in_both_precisions
@every_kind
def test_it_equals_its_formula_written_as_loops(kind, dtype):
    layer, inputs = randomised(norm(kind, WIDTH, EPS), dtype), inputs_of(dtype)
    yield layer(inputs), by_loops(layer, kind, inputs)


@pytest.mark.planted
@every_kind
def test_every_parameter_and_epsilon_are_seen_by_the_comparison_with_the_loops(kind):
    layer, inputs = randomised(norm(kind, WIDTH, EPS), torch.float64), inputs_of(torch.float64)
    wanted = by_loops(layer, kind, inputs)
    assert parameters_that_do_not_matter(layer, lambda: difference(layer(inputs), wanted)) == set()
    assert difference(layer(inputs), by_loops(layer, kind, inputs, eps=2 * EPS)) > 1e-5


@pytest.mark.parametrize(("kind", "other"), [("layer", "rms"), ("rms", "layer")])
def test_the_other_kind_is_another_function(kind, other):
    inputs = inputs_of(torch.float32)
    assert difference(norm(kind, WIDTH, EPS)(inputs), norm(other, WIDTH, EPS)(inputs)) > 0.1


def compared_with_llama(dtype):
    ours, inputs = randomised(norm("rms", WIDTH, EPS), dtype), inputs_of(dtype)
    theirs = LlamaRMSNorm(WIDTH, eps=EPS)
    theirs.load_state_dict(ours.state_dict())
    with oracle_precision(dtype):
        wanted = theirs.to(dtype)(inputs)
    return ours, lambda: (ours(inputs), wanted)


@agrees_in_both_precisions
def test_the_root_mean_square_norm_equals_that_of_llama(dtype):
    yield compared_with_llama(dtype)[1]()


@pytest.mark.planted
def test_the_scale_is_seen_by_the_comparison_with_llama():
    ours, answers = compared_with_llama(torch.float64)
    assert parameters_that_do_not_matter(ours, lambda: difference(*answers())) == set()


@every_kind
def test_a_new_norm_neither_scales_nor_shifts(kind):
    out = norm(kind, WIDTH, 0.0).double()(inputs_of(torch.float64))
    assert difference((out**2).mean(-1), torch.ones(2, 3)) <= EXACT
    mean = difference(out.mean(-1), torch.zeros(2, 3))
    assert mean <= EXACT if kind == "layer" else mean > 0.1


def test_a_layer_norm_standardises_each_token_and_a_batch_norm_each_feature():
    inputs = inputs_of(torch.float64)
    by_token = norm("layer", WIDTH, 1e-14).double()(inputs)
    by_feature = nn.BatchNorm1d(WIDTH, eps=1e-14).double()(inputs.mT).mT
    assert difference(by_token.mean(-1), torch.zeros(2, 3)) < 1e-12
    assert difference(by_token.var(-1, correction=0), torch.ones(2, 3)) < 1e-12
    assert difference(by_feature.mean((0, 1)), torch.zeros(WIDTH)) < 1e-12
    assert difference(by_feature.var((0, 1), correction=0), torch.ones(WIDTH)) < 1e-12
    assert difference(by_token, by_feature) > 0.1


def test_only_a_batch_norm_in_training_sees_other_images_and_other_tokens():
    inputs, changed = inputs_of(torch.float64), inputs_of(torch.float64)
    changed[1, 2] += 3 * torch.arange(WIDTH)
    others = torch.ones(2, 3, dtype=torch.bool)
    others[1, 2] = False
    by_token, by_feature = norm("layer", WIDTH, EPS).double(), nn.BatchNorm1d(WIDTH, eps=EPS).double()
    assert torch.equal(by_token(changed)[others], by_token(inputs)[others])
    assert difference(by_feature(changed.mT).mT[others], by_feature(inputs.mT).mT[others]) > 0.1
    by_feature.eval()  # its running statistics, which a layer norm has none of, stand in for the batch
    assert torch.equal(by_feature(changed.mT).mT[others], by_feature(inputs.mT).mT[others])
    assert list(norm("layer", WIDTH, EPS).buffers()) == []
