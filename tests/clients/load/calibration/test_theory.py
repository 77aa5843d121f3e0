import numpy as np
import pytest

from clients.load.calibration import theory

RATE, SERVICE_S = 50.0, 0.01


@pytest.fixture(scope="module")
def arrivals():
    return np.cumsum(np.random.default_rng(0).exponential(1 / RATE, 400_000))


def test_a_line_of_three_is_served_one_at_a_time():
    found = theory.sojourns(np.array([0.0, 1.0, 10.0]), np.array([3.0, 2.0, 1.0]))
    assert found.tolist() == [3.0, 4.0, 1.0]


def test_formulas_of_mm1_are_what_lines_converge_to(arrivals):
    services = np.random.default_rng(1).exponential(SERVICE_S, len(arrivals))
    found = theory.sojourns(arrivals, services)
    assert abs(found.mean() / theory.mean_mm1(RATE, SERVICE_S) - 1) < 0.02
    for share in (0.5, 0.95, 0.99):
        assert abs(np.quantile(found, share) / theory.quantile_mm1(RATE, SERVICE_S, share) - 1) < 0.03


def test_formulas_of_md1_are_what_lines_converge_to(arrivals):
    found = theory.sojourns(arrivals, np.full(len(arrivals), SERVICE_S))
    assert abs(found.mean() / theory.mean_md1(RATE, SERVICE_S) - 1) < 0.02
    for share in (0.4, 0.75, 0.95, 0.99):
        assert abs(np.quantile(found, share) / theory.quantile_md1(RATE, SERVICE_S, share) - 1) < 0.02
