"""Percentiles are those of the definition."""

from math import floor

import numpy as np
import pytest

from clients.load.analysis.percentiles import RANKS, distribution


@pytest.mark.parametrize("scale", [1e-4, 1e-2, 1.0, 30.0, 3000.0])
def test_a_percentile_lies_between_the_values_beside_its_rank(scale):
    values = scale * np.random.default_rng(0).lognormal(size=20_000)
    found = distribution(values)
    ascending = sorted(values.tolist())
    places = {rank: (len(ascending) - 1) * rank / 100 for rank in RANKS}
    exact = {
        rank: ascending[floor(place)] + (place - floor(place)) * (ascending[floor(place) + 1] - ascending[floor(place)])
        for rank, place in places.items()
    }
    assert found.percentiles == pytest.approx(exact)
    assert (found.avg, found.std) == pytest.approx((values.mean(), values.std()))
    assert (found.min, found.max, found.count) == (values.min(), values.max(), 20_000)
    assert found.total == pytest.approx(values.sum())


def test_a_percentile_never_lies_beyond_the_extremes():
    found = distribution(np.full(5, 0.123456789))
    assert set(found.percentiles.values()) == {0.123456789}


def test_lengths_of_long_texts_fit():
    assert distribution(np.array([131_072.0] * 3)).percentiles[50.0] == 131_072


def test_no_values_have_no_distribution():
    assert distribution(np.empty(0)) is None


def test_a_percentile_needs_ten_values_beyond_it():
    found = distribution(np.linspace(0.01, 1, 1000))
    assert [found.supports(rank) for rank in (1.0, 50.0, 99.0, 99.9)] == [True, True, True, False]
