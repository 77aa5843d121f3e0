"""Intervals hold what they promise, where values depend on each other too."""

from statistics import NormalDist

import numpy as np
import pytest

from clients.load.analysis.intervals import block_length, intervals


def chain(phi, count, seed):
    """A first-order autoregression with a normal spread of variance 1."""
    draws = np.random.default_rng(seed).normal(size=count) * np.sqrt(1 - phi**2)
    values = np.empty(count)
    values[0] = np.random.default_rng(seed + 10**6).normal()
    for at in range(1, count):
        values[at] = phi * values[at - 1] + draws[at]
    return values


@pytest.mark.parametrize(("phi", "least"), [(0.0, 0.88), (0.8, 0.82)])
def test_95_percent_intervals_hold_the_truth_about_as_often(phi, least):
    truth = {"avg": 0.0, "p50": 0.0, "p95": NormalDist().inv_cdf(0.95)}
    found = [intervals(chain(phi, 1000, seed)) for seed in range(60)]
    for name, value in truth.items():
        assert np.mean([low <= value <= high for low, high in (one[name] for one in found)]) >= least, name


def test_independent_draws_would_promise_far_too_much():
    values = chain(0.9, 4000, 5)
    low, high = intervals(values)["avg"]
    naive = 2 * 1.96 * values.std() / np.sqrt(len(values))
    assert high - low > 2.5 * naive


def test_blocks_grow_with_dependence():
    lengths = [np.median([block_length(chain(phi, 2000, seed)) for seed in range(9)]) for phi in (0.0, 0.5, 0.9)]
    assert lengths[0] <= 6 < lengths[1] < lengths[2]


def test_the_same_values_give_the_same_interval():
    values = chain(0.3, 300, 1)
    assert intervals(values) == intervals(values)


def test_equal_values_have_an_interval_of_no_width():
    assert intervals(np.full(50, 2.0))["p95"] == (2.0, 2.0)


def test_few_values_have_no_interval():
    assert intervals(np.arange(19.0)) == {}


def test_a_trend_takes_the_longest_blocks():
    assert block_length(np.arange(300.0)) >= 50
