from itertools import pairwise

from serving.engine.meter import BOUNDS_S, Histogram


def test_a_time_on_a_bound_is_in_that_bucket_and_a_longer_one_in_the_next():
    assert all(low < high for low, high in pairwise(BOUNDS_S))
    for place, bound in enumerate(BOUNDS_S):
        histogram = Histogram()
        histogram.add(bound)
        histogram.add(bound * 1.0001)
        assert [number for number, count in enumerate(histogram.counts) if count] == [place, place + 1]


def test_every_time_is_counted_once_and_summed():
    histogram = Histogram()
    for seconds in (0.0, 0.003, 0.004, 7.0, 600.0):
        histogram.add(seconds)
    assert sum(histogram.counts) == 5 and histogram.counts[-1] == 1 and histogram.counts[2] == 2
    assert abs(histogram.total_s - 607.007) < 1e-9


def test_two_histograms_count_for_themselves():
    one, other = Histogram(), Histogram()
    one.add(1.0)
    assert sum(other.counts) == 0
