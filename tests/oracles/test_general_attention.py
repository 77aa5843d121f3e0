from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from attendant.errors import ConfigError
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter, randomised
from tests.oracles.general_attention import General, GeneralAttention, SelfAttention, attention, dot, scaled_dot

BATCH, QUERIES, INPUTS, WIDTH, KEY, VALUE = 2, 3, 5, 8, 4, 6
SCORES = {
    dot: lambda q, k: sum(q * k),
    scaled_dot: lambda q, k: sum(q * k) / len(k) ** 0.5,
}
every_score = pytest.mark.parametrize("score", SCORES, ids=lambda score: score.__name__)


def vectors(dtype, *shape, seed=0):
    return torch.randn(BATCH, *shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def queries_and_inputs(dtype):
    return vectors(dtype, QUERIES, KEY), vectors(dtype, INPUTS, WIDTH, seed=1)


def by_loops(queries, keys, values, score, temperature=1.0):
    queries, keys, values = (x.numpy() for x in (queries, keys, values))
    mixed, weights = np.zeros((*queries.shape[:2], values.shape[2])), np.zeros((*queries.shape[:2], keys.shape[1]))
    for b, i in np.ndindex(queries.shape[:2]):
        exponentials = [np.exp(score(queries[b, i], key) / temperature) for key in keys[b]]
        for j, exponential in enumerate(exponentials):
            weights[b, i, j] = exponential / sum(exponentials)
            mixed[b, i] += weights[b, i, j] * values[b, j]
    return torch.from_numpy(mixed), torch.from_numpy(weights)


def projected(linear, inputs):
    """x W, entry by entry."""
    weight, x = linear.weight.numpy(), inputs.numpy()
    out = [[[sum(weight[o] * token) for o in range(len(weight))] for token in row] for row in x]
    return torch.tensor(out, dtype=torch.float64)


def worst(found, wanted):
    return max(difference(ours, theirs) for ours, theirs in zip(found, wanted, strict=True))


@agrees_in_both_precisions
@every_score
@pytest.mark.parametrize("temperature", [1.0, 0.5, 3])
def test_attention_over_the_inputs_themselves_equals_its_formula_written_as_loops(score, temperature, dtype):
    inputs = vectors(dtype, INPUTS, KEY)
    queries = vectors(dtype, QUERIES, KEY, seed=1)
    wanted = by_loops(queries, inputs, inputs, SCORES[score], temperature)
    yield from zip(attention(queries, inputs, inputs, score, temperature), wanted, strict=True)


@pytest.mark.planted
def test_another_score_and_another_temperature_are_seen_by_the_comparison_with_the_loops():
    inputs, queries = vectors(torch.float64, INPUTS, KEY), vectors(torch.float64, QUERIES, KEY, seed=1)
    wanted = by_loops(queries, inputs, inputs, SCORES[dot])
    assert worst(attention(queries, inputs, inputs, scaled_dot), wanted) > 0.01
    assert worst(attention(queries, inputs, inputs, dot, 1.1), wanted) > 0.01


@agrees_in_both_precisions
@every_score
def test_projected_keys_and_values_equal_the_formula_written_as_loops(score, dtype):
    layer = randomised(GeneralAttention(WIDTH, KEY, VALUE, score, 0.7), dtype)
    queries, inputs = queries_and_inputs(dtype)
    mixed, weights = layer(queries, inputs)
    assert (mixed.shape, weights.shape) == ((BATCH, QUERIES, VALUE), (BATCH, QUERIES, INPUTS))
    keys, values = projected(layer.key, inputs), projected(layer.value, inputs)
    wanted = by_loops(queries, keys, values, SCORES[score], 0.7)
    yield from zip((mixed, weights), wanted, strict=True)


@pytest.mark.planted
def test_the_scale_is_the_root_of_the_key_width_and_not_of_the_input_width():
    layer = randomised(GeneralAttention(WIDTH, KEY, VALUE), torch.float64)
    queries, inputs = queries_and_inputs(torch.float64)
    keys, values = layer.key(inputs), layer.value(inputs)
    by_input_width = by_loops(queries, keys, values, lambda q, k: sum(q * k) / WIDTH**0.5)
    assert worst(layer(queries, inputs), by_input_width) > 1e-3


@agrees_in_both_precisions
def test_the_scaled_dot_product_equals_the_attention_of_pytorch(dtype):
    layer = randomised(SelfAttention(WIDTH, KEY, VALUE), dtype)
    inputs = vectors(dtype, INPUTS, WIDTH)
    inner = layer.attention
    wanted = F.scaled_dot_product_attention(layer.query(inputs), inner.key(inputs), inner.value(inputs))
    yield layer(inputs)[0], wanted


@agrees_in_both_precisions
@every_score
def test_self_attention_equals_the_formula_written_as_loops(score, dtype):
    layer = randomised(SelfAttention(WIDTH, KEY, VALUE, score, 2.0), dtype)
    inputs = vectors(dtype, INPUTS, WIDTH)
    parts = (projected(linear, inputs) for linear in (layer.query, layer.attention.key, layer.attention.value))
    yield from zip(layer(inputs), by_loops(*parts, SCORES[score], 2.0), strict=True)


@pytest.mark.planted
@every_score
def test_every_parameter_of_self_attention_is_seen_by_the_comparison(score):
    layer, inputs = (
        randomised(SelfAttention(WIDTH, KEY, VALUE, score), torch.float64),
        vectors(torch.float64, INPUTS, WIDTH),
    )
    parts = [projected(linear, inputs) for linear in (layer.query, layer.attention.key, layer.attention.value)]
    wanted = by_loops(*parts, SCORES[score])
    assert parameters_that_do_not_matter(layer, lambda: worst(layer(inputs), wanted)) == set()


def general_score(dtype):
    score = randomised(General(KEY, WIDTH), dtype)
    matrix = score.projection.weight.numpy()
    return score, lambda q, k: sum(q[i] * matrix[i, j] * k[j] for i, j in np.ndindex(matrix.shape))


@agrees_in_both_precisions
def test_the_general_score_joins_queries_and_keys_of_two_widths_by_a_matrix(dtype):
    score, by_formula = general_score(dtype)
    queries, inputs = queries_and_inputs(dtype)
    wanted = by_loops(queries, inputs, inputs, by_formula)
    yield from zip(attention(queries, inputs, inputs, score), wanted, strict=True)


@pytest.mark.planted
def test_the_matrix_of_the_general_score_is_seen_by_the_comparison():
    score, by_formula = general_score(torch.float64)
    queries, inputs = queries_and_inputs(torch.float64)
    wanted = by_loops(queries, inputs, inputs, by_formula)

    def compare():
        return worst(attention(queries, inputs, inputs, score), wanted)

    assert parameters_that_do_not_matter(score, compare) == set()


def test_a_learned_score_is_a_part_of_the_layer_and_trains_with_it():
    layer = GeneralAttention(WIDTH, 7, VALUE, General(KEY, 7))
    mixed, _ = layer(*queries_and_inputs(torch.float32))
    mixed.sum().backward()
    assert {name for name, weight in layer.named_parameters() if weight.grad.abs().max() > 0} == {
        "key.weight",
        "value.weight",
        "score.projection.weight",
    }


def test_a_score_may_be_any_function_of_queries_and_keys():
    queries, inputs = vectors(torch.float64, QUERIES, KEY), vectors(torch.float64, INPUTS, KEY, seed=1)
    found = attention(queries, inputs, inputs, lambda q, k: -torch.cdist(q, k))
    wanted = by_loops(queries, inputs, inputs, lambda q, k: -(sum((q - k) ** 2) ** 0.5))
    assert worst(found, wanted) <= 1e-9  # cdist's own error


@given(permutation=st.permutations(range(INPUTS)), seed=st.integers(0, 2**32))
def test_self_attention_of_permuted_inputs_is_permuted_self_attention(permutation, seed):
    layer = randomised(SelfAttention(WIDTH, KEY, VALUE), torch.float64, seed)
    inputs = vectors(torch.float64, INPUTS, WIDTH, seed=seed)
    mixed, weights = layer(inputs)
    permuted = layer(inputs[:, permutation])
    assert worst(permuted, (mixed[:, permutation], weights[:, permutation][:, :, permutation])) <= 1e-12


@given(permutation=st.permutations(range(INPUTS)))
def test_attention_to_a_set_does_not_see_the_order_of_its_members(permutation):
    layer = randomised(GeneralAttention(WIDTH, KEY, VALUE), torch.float64)
    queries, inputs = queries_and_inputs(torch.float64)
    assert difference(layer(queries, inputs[:, permutation])[0], layer(queries, inputs)[0]) <= 1e-12


def test_the_rows_of_a_batch_do_not_see_each_other():
    layer = randomised(SelfAttention(WIDTH, KEY, VALUE), torch.float64)
    inputs = vectors(torch.float64, INPUTS, WIDTH)
    together = layer(inputs)
    for row in range(BATCH):
        assert worst((x[row, None] for x in together), layer(inputs[row, None])) <= 1e-12


@every_score
def test_weights_become_even_as_the_temperature_rises_and_one_takes_all_as_it_falls(score):
    queries, inputs = queries_and_inputs(torch.float64)
    inputs = inputs[..., :KEY]
    spread = {
        temperature: attention(queries, inputs, inputs, score, temperature)[1]
        for temperature in (1e-5, 0.1, 1.0, 10.0, 1e9)
    }
    assert difference(spread[1e9], torch.full_like(spread[1e9], 1 / INPUTS)) < 1e-8
    assert torch.equal(spread[1e-5].round(), F.one_hot(score(queries, inputs).argmax(-1), INPUTS).double())
    assert difference(spread[1e-5], spread[1e-5].round()) < 1e-6
    entropies = [torch.special.entr(weights).sum(-1) for weights in spread.values()]
    assert all((colder < hotter).all() for colder, hotter in pairwise(entropies))


@pytest.mark.parametrize("temperature", [0, 0.0, -1.0, float("nan"), float("inf"), "1", None, True], ids=repr)
def test_what_is_no_temperature_is_refused(temperature):
    inputs = vectors(torch.float32, INPUTS, KEY)
    for build in (
        lambda: attention(inputs, inputs, inputs, temperature=temperature),
        lambda: GeneralAttention(WIDTH, KEY, VALUE, temperature=temperature),
        lambda: SelfAttention(WIDTH, KEY, VALUE, temperature=temperature),
    ):
        with pytest.raises(ConfigError, match="a finite softmax temperature above 0"):
            build()
