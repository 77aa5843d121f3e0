"""Figures are written as people read them."""

import numpy as np
import pytest

from clients.load.analysis.metrics import Metric
from clients.load.analysis.percentiles import distribution
from clients.load.report.titles import interval_text, range_text, rate_text, time_text, value_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 µs"), (1e-8, "0 µs"), (0.00123, "1.23 ms"), (-0.002, "−2 ms"), (float("nan"), "none")],
)
def test_times_may_be_negative_or_missing(seconds, text):
    assert time_text(seconds) == text


@pytest.mark.parametrize(("value", "text"), [(0.5, "0.5"), (42.345, "42.3"), (1234.5, "1,234"), (2.5e6, "2.5 M")])
def test_rates_have_three_digits_or_whole_numbers(value, text):
    assert rate_text(value) == text


@pytest.mark.parametrize(
    ("sure", "text"), [((0.0073, 0.00794), "7.3 … 7.94 ms"), ((0.0009, 0.0012), "900 µs … 1.2 ms"), (None, "")]
)
def test_the_unit_of_an_interval_is_said_once(sure, text):
    assert range_text(sure) == text


def test_a_percentile_that_rests_on_few_requests_is_doubted():
    values = np.linspace(0.002, 0.1, 300)
    metric = Metric(
        unit="s", avg=float(values.mean()), distribution=distribution(values), intervals={"p95": (0.09, 0.1)}
    )
    assert value_text(metric, "p95") == "95.1 ms"
    assert value_text(metric, "p99").endswith(" ms ?")
    assert value_text(metric, "max") == "100 ms"
    assert (interval_text(metric, "p95"), interval_text(metric, "p50")) == ("90 … 100 ms", "")


def test_a_rate_has_its_unit():
    assert value_text(Metric(unit="tokens/sec", avg=1234.0, intervals={})) == "1,234 tokens/s"
