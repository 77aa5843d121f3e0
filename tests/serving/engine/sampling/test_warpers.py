import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from transformers.generation import logits_process as hf

from attendant.sampling_params import SamplingParams
from serving.engine.sampling.sampler import (
    create_filters,
    crossing,
    divide_by_temperature,
    kth_largest,
    log_softmax,
    min_p,
    softmax,
    top_k,
    top_p,
    typical_p,
)

tied = st.sampled_from([-2.0, 0.0, 1.0, 1.0 + 2**-40])
rows = st.lists(st.one_of(tied, st.just(float("-inf")), st.floats(-30, 30)), min_size=1, max_size=40).map(np.array)
wide_rows = st.integers(0, 2**32).map(lambda seed: np.random.default_rng(seed).normal(0, 3, 3000).round(1))
logits = st.one_of(rows, wide_rows).filter(lambda row: row.max() > -np.inf)
shares = st.floats(0.01, 0.99)


def ours(keep, row):
    kept = np.flatnonzero(keep(row))
    return set(kept[row[kept] > -np.inf])


def theirs(warper, row):
    return set(np.flatnonzero(warper(None, torch.tensor(row)[None])[0].numpy() > -np.inf))


def is_near(cumulative, threshold):
    return bool((np.abs(cumulative - threshold) < 1e-12).any())


@settings(deadline=None)
@given(logits, st.integers(1, 50))
def test_top_k_keeps_what_transformers_keeps(row, k):
    assert ours(lambda left: top_k(k, left), row) == theirs(hf.TopKLogitsWarper(k), row)


@given(logits, st.integers(1, 50))
def test_the_kth_largest_is_that_of_sorted_values(row, k):
    assert kth_largest(row, k) == np.sort(row)[max(row.size - k, 0)]


@settings(deadline=None)
@given(logits, shares)
def test_top_p_keeps_what_transformers_keeps(row, mass):
    assume(not is_near(np.sort(softmax(row)).cumsum(), 1 - mass))
    kept, wanted = ours(lambda left: top_p(mass, left), row), theirs(hf.TopPLogitsWarper(mass), row)
    # Which of equally probable tokens stay is left open by torch's sort, which is stable only for a few.
    assert sorted(row[list(kept)]) == sorted(row[list(wanted)])
    assert kept == wanted or row.size > 16


@settings(deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([5, 1024, 3000, 9000]), st.sampled_from([1.0, 1e-3, 1e-12]), shares)
def test_where_a_mass_is_crossed_is_where_a_sort_says(seed, size, spread, mass):
    rng = np.random.default_rng(seed)
    keys, weights = rng.normal(0, spread, size), rng.random(size) * (rng.random(size) < 0.8)
    keys[rng.random(size) < 0.3] = keys[0]  # ties
    keys[: size // 100], weights[0] = 1e6, 1.0  # far from all others, which are then in one bin
    weights /= weights.sum()
    order = np.argsort(keys, kind="stable")
    cumulative = weights[order].cumsum()
    assume(not is_near(cumulative, mass))
    assert crossing(keys, weights, mass) == keys[order[(cumulative <= mass).sum()]]
    assert crossing(keys, weights, 1.0) == keys[weights > 0].max(), "rounding may leave the mass uncrossed"


def test_of_equally_probable_tokens_the_last_reach_the_probability():
    for size in (4, 3000):
        kept = top_p(0.5, np.zeros(size))
        assert not kept[: size // 2 - 1].any() and kept[size // 2 :].all()


@settings(deadline=None)
@given(logits, shares)
def test_min_p_keeps_what_transformers_keeps(row, share):
    assume(not is_near(softmax(row), share * softmax(row).max()))
    assert ours(lambda left: min_p(share, left), row) == theirs(hf.MinPLogitsWarper(share), row)


@settings(deadline=None)
@given(logits, shares)
def test_typical_p_keeps_what_transformers_keeps(row, mass):
    finite = row[row > -np.inf]
    surprise = -log_softmax(finite)
    distance = np.abs(surprise - (np.exp(-surprise) * surprise).sum())
    order = distance.argsort(kind="stable")
    assume(not is_near(np.exp(-surprise[order]).cumsum(), mass))
    for values in (distance[order], np.sort(finite)):  # whose order is a matter of rounding
        assume(not any(0 < gap < 1e-12 for gap in np.diff(values)))
    assert ours(lambda left: typical_p(mass, left), row) == theirs(hf.TypicalLogitsWarper(mass), row)


@settings(deadline=None)
@given(wide_rows, st.integers(1, 200), shares, shares, shares, st.floats(0.2, 3))
def test_all_together_stand_in_the_order_of_transformers(row, k, p, share, mass, temperature):
    options = SamplingParams(temperature=temperature, top_k=k, top_p=p, min_p=share, typical_p=mass)
    row = row + np.arange(row.size) * 1e-7  # without ties
    left = row.copy()
    divide_by_temperature(left, temperature)
    tokens = np.arange(row.size)
    for keep in create_filters(options):
        tokens = tokens[keep(left[tokens])]
    warped = torch.tensor(row)[None]
    for warper in (
        hf.TemperatureLogitsWarper(temperature),
        hf.TopKLogitsWarper(k),
        hf.TopPLogitsWarper(p),
        hf.MinPLogitsWarper(share),
        hf.TypicalLogitsWarper(mass),
    ):
        warped = warper(None, warped)
    wanted = warped[0].softmax(-1).numpy()
    np.testing.assert_array_equal(tokens, np.flatnonzero(wanted))
    np.testing.assert_allclose(softmax(left[tokens]), wanted[tokens], rtol=1e-9)


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("keep", [top_p, min_p, typical_p])
def test_one_token_at_least_is_left(keep, size):
    for share in (1e-9, 0.5, 1 - 1e-9):
        assert keep(share, np.zeros(size)).any()


def test_the_lowest_temperature_leaves_the_most_probable_token():
    left = np.array([30.0, 31.0, -np.inf])
    divide_by_temperature(left, 5e-324)
    assert softmax(left).tolist() == [0, 1, 0]


def test_only_what_is_asked_for_filters():
    assert create_filters(SamplingParams(temperature=1.0)) == ()
