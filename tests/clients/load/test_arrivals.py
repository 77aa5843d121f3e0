import math

import numpy as np
import pytest

from attendant.errors import ConfigError
from clients.load.arrivals import ClosedLoop, Constant, Gamma, Poisson, Ramp, Replay, draw_times

LONG_S = 400.0


def rng(seed=3):
    return np.random.default_rng(seed)


def gaps(arrivals):
    return np.diff(draw_times(arrivals, rng(), LONG_S))


def test_constant_arrivals_have_even_distances_from_the_beginning():
    assert np.allclose(draw_times(Constant(rate=4), rng(), 1.0), [0, 0.25, 0.5, 0.75])


def test_poisson_gaps_are_exponential():
    found = gaps(Poisson(rate=50))
    assert abs(found.mean() * 50 - 1) < 0.02
    assert abs(found.std() / found.mean() - 1) < 0.02
    assert abs((found > 1 / 50).mean() - np.exp(-1)) < 0.01


@pytest.mark.parametrize("shape", [0.25, 4.0])
def test_gamma_gaps_have_the_mean_of_the_rate_and_the_spread_of_the_shape(shape):
    found = gaps(Gamma(rate=50, shape=shape))
    assert abs(found.mean() * 50 - 1) < 0.05
    assert abs((found.std() / found.mean()) ** 2 * shape - 1) < 0.1


def test_numbers_of_poisson_arrivals_vary_as_much_as_their_mean():
    found = np.histogram(draw_times(Poisson(rate=50), rng(), LONG_S), bins=int(LONG_S))[0]
    assert abs(found.var() / found.mean() - 1) < 0.2


@pytest.mark.parametrize(("first", "last"), [(0, 100), (100, 0), (30, 90), (50, 50)])
def test_a_ramp_has_the_rate_of_each_moment(first, last):
    found = draw_times(Ramp(first_rate=first, last_rate=last), rng(), LONG_S)
    quarters = np.histogram(found, bins=4, range=(0, LONG_S))[0] / (LONG_S / 4)
    wanted = first + (last - first) * np.array([1, 3, 5, 7]) / 8
    assert np.allclose(quarters, wanted, rtol=0.05, atol=2)
    assert (np.diff(found) >= 0).all()


def test_the_same_seed_draws_the_same_times_and_another_seed_others():
    one, same, other = (draw_times(Poisson(rate=9), rng(seed), 50.0) for seed in (1, 1, 2))
    assert one.tolist() == same.tolist()
    assert one[:5].tolist() != other[:5].tolist()


@pytest.mark.parametrize("arrivals", [Constant(rate=7), Poisson(rate=7), Gamma(rate=7, shape=2)])
def test_a_number_ends_arrivals_where_a_duration_does_not(arrivals):
    assert len(draw_times(arrivals, rng(), number=5000)) == 5000
    assert len(draw_times(arrivals, rng(), 1.0, number=5000)) < 100


def test_arrivals_without_an_end_are_refused():
    with pytest.raises(ConfigError, match="duration_s"):
        draw_times(Poisson(rate=1), rng())
    with pytest.raises(ConfigError, match="duration_s"):
        draw_times(Ramp(first_rate=1, last_rate=2), rng(), number=5)


@pytest.mark.parametrize(
    ("kind", "values", "key"),
    [
        (ClosedLoop, {"concurrency": 0}, "concurrency"),
        (Constant, {"rate": 0.0}, "rate"),
        (Poisson, {"rate": -1.0}, "rate"),
        (Gamma, {"rate": 1.0, "shape": 0.0}, "shape"),
        (Ramp, {"first_rate": 0.0, "last_rate": 0.0}, "last_rate"),
        (Replay, {"trace": "x", "speed": 0.0}, "speed"),
        (Replay, {"trace": "x", "speed": math.inf}, "speed"),
        *((kind, {"rate": rate}, "rate") for kind in (Constant, Poisson) for rate in (math.inf, math.nan, 5e-324)),
        *((Gamma, {"rate": 1.0, "shape": shape}, "shape") for shape in (1e-12, 1e-6, 5e307, math.inf, math.nan)),
        (Ramp, {"first_rate": 0.0, "last_rate": math.inf}, "last_rate"),
        (Ramp, {"first_rate": math.nan, "last_rate": 1.0}, "first_rate"),
    ],
)
def test_a_value_that_arrivals_cannot_have_is_refused_by_name(kind, values, key):
    with pytest.raises(ConfigError, match=key):
        kind(**values)


@pytest.mark.parametrize("rate", [1e9, 1e8])
def test_more_requests_than_can_be_kept_are_refused_before_any_is_drawn(rate):
    with pytest.raises(ConfigError, match="at most 10,000,000 requests"):
        draw_times(Poisson(rate=rate), np.random.default_rng(0), ends_s=1.0)
