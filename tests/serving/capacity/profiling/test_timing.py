"""Calls are timed in rounds, and parts of a sum are never negative."""

import pytest

from serving.capacity.profiling.timing import fit_nonnegative, measure_medians


def test_every_call_has_its_median():
    counts = [0, 0]

    def count(number):
        counts[number] += 1

    taken = measure_medians([lambda: count(0), lambda: count(1)], "counting", rounds=2)
    assert len(taken) == 2 and min(taken) > 0 and min(counts) >= 3


def test_parts_are_found_that_add_up():
    parts = [(1, count) for count in (1, 2, 4, 8)]
    assert fit_nonnegative(parts, [3 + 2 * count for count in (1, 2, 4, 8)]) == pytest.approx([3, 2])


def test_a_part_that_would_be_negative_is_none():
    found = fit_nonnegative([(1, count) for count in (1, 2, 4)], [-1 + 2 * count for count in (1, 2, 4)])
    assert found[0] == 0 and found[1] == pytest.approx((1 + 6 + 28) / 21)
    assert fit_nonnegative([(1, 1), (1, 2)], [-1.0, -2.0]) == [0.0, 0.0]
