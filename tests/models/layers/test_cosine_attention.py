import math

import pytest
import torch
from torch.nn import functional as F

from models.layers.cosine_attention import ScaledCosine
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter, randomised

HEADS = 3


def vectors(dtype=torch.float64, seed=0):
    return torch.randn(2, HEADS, 5, 4, generator=torch.Generator().manual_seed(seed)).to(dtype)


def scores_of(layer, queries, keys):
    changed_queries, changed_keys = layer(queries, keys)
    return changed_queries @ changed_keys.mT


def scores_by_torch(layer, queries, keys):
    cosine = F.cosine_similarity(queries[..., :, None, :], keys[..., None, :, :], dim=-1)
    temperature = (1 / layer.log_scale.exp()).clamp(min=0.01)
    return cosine / temperature


@agrees_in_both_precisions
def test_a_score_is_the_cosine_over_the_temperature_of_its_head(dtype):
    layer, queries, keys = randomised(ScaledCosine(HEADS), dtype), vectors(dtype), vectors(dtype, seed=1)
    yield scores_of(layer, queries, keys), scores_by_torch(layer, queries, keys)


@pytest.mark.planted
def test_a_changed_temperature_is_seen_by_the_comparison():
    layer, queries, keys = randomised(ScaledCosine(HEADS), torch.float64), vectors(), vectors(seed=1)
    wanted = scores_by_torch(layer, queries, keys)
    assert parameters_that_do_not_matter(layer, lambda: difference(scores_of(layer, queries, keys), wanted)) == set()


def test_the_temperature_starts_at_a_tenth_and_never_falls_below_a_hundredth():
    layer, queries = ScaledCosine(HEADS).double().requires_grad_(False), vectors()
    assert difference(layer(queries, queries)[0].norm(dim=-1), torch.full((2, HEADS, 5), 10.0)) <= 1e-5
    layer.log_scale.fill_(1000.0)
    assert difference(layer(queries, queries)[0].norm(dim=-1), torch.full((2, HEADS, 5), 100.0)) <= 1e-5
    layer.log_scale.fill_(math.log(0.5))
    assert difference(layer(queries, queries)[0].norm(dim=-1), torch.full((2, HEADS, 5), 0.5)) <= 1e-5


@pytest.mark.parametrize("factor", [1e-2, 1e3])
def test_the_length_of_a_query_or_a_key_changes_no_score(factor):
    layer, queries, keys = ScaledCosine(HEADS).double(), vectors(), vectors(seed=1)
    assert difference(scores_of(layer, factor * queries, factor * keys), scores_of(layer, queries, keys)) <= 1e-12


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_a_vector_of_zeros_scores_zero_in_half_precision_too(dtype):
    layer = ScaledCosine(HEADS).to(dtype)
    scores = scores_of(layer, vectors().to(dtype), torch.zeros(2, HEADS, 5, 4, dtype=dtype))
    assert torch.equal(scores, torch.zeros_like(scores))
