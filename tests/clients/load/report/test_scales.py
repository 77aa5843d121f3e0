"""Axes have round ticks, in order, and put values where they belong."""

import pytest

from clients.load.report.scales import Linear, Logarithmic, Tail


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.0, 437.0), (3.1, 3.9), (0.0, 2e-6)])
def test_linear_ticks_are_round_and_inside(low, high):
    ticks = Linear(low, high).ticks(4)
    assert 2 <= len(ticks) <= 9
    assert all(low - 1e-12 <= tick <= high * 1.001 for tick in ticks)
    assert all(f"{tick / (ticks[1] - ticks[0]):.6f}".endswith("000000") for tick in ticks)


@pytest.mark.parametrize(("low", "high"), [(1e-4, 2.0), (0.08, 0.2), (1e-6, 100.0), (0.5, 0.51)])
def test_logarithmic_ticks_lie_inside(low, high):
    ticks = Logarithmic(low, high).ticks(6)
    assert 2 <= len(ticks) <= 12
    assert all(low * 0.99 <= tick <= high * 1.01 for tick in ticks)


def test_equal_ratios_are_equally_far_apart():
    scale = Logarithmic(0.001, 1.0)
    assert [scale.place(value) for value in (0.001, 0.01, 0.1, 1.0)] == pytest.approx([0, 1 / 3, 2 / 3, 1])


def test_each_nine_of_a_percentile_is_as_wide():
    scale = Tail(99.9)
    assert [scale.place(rank) for rank in (0.0, 90.0, 99.0, 99.9)] == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert scale.ticks(8) == [0.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9]


@pytest.mark.parametrize("scale", [Linear(1.0, 2.0), Logarithmic(1.0, 2.0), Tail(99.0)])
def test_values_beyond_the_ends_are_set_to_them(scale):
    assert (scale.place(-5.0), scale.place(1e9)) == (0.0, 1.0)
