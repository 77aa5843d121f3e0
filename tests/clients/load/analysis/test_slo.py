"""Objectives are read as people write them, and refused with the word that is wrong."""

import pytest

from attendant.errors import ConfigError
from clients.load.analysis.slo import limits_on, parse_objectives


def test_objectives_are_read():
    first, second = parse_objectives("ttft_p95<200ms, itl_p99.9 <= 50 us")
    assert (first.metric, first.statistic, first.limit_s, first.text) == (
        "effective_time_to_first_token",
        "p95",
        pytest.approx(0.2),
        "ttft_p95<200ms",
    )
    assert (second.metric, second.statistic, second.limit_s) == ("inter_token_latency", "p99.9", pytest.approx(5e-5))


def test_blanks_may_stand_between_the_words():
    (one, other) = parse_objectives("ttft p95 < 200 ms, sent_latency avg <= 1 s")
    assert (one.text, one.metric, one.limit_s) == ("ttft_p95<200ms", "effective_time_to_first_token", 0.2)
    assert (other.text, other.metric, other.statistic) == ("sent_latency_avg<=1s", "request_latency", "avg")


def test_no_text_is_no_objective():
    assert parse_objectives(" ") == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ttft_p95>200ms", "metric_statistic<limit"),
        ("ttft_p95<200ms,", "metric_statistic<limit"),
        ("speed_p95<200ms", "a metric among ttft.*found 'speed'"),
        ("ttft_p42<200ms", "a statistic among avg.*found 'p42'"),
        ("ttft_p95<200", "a unit among us.*found ''"),
        ("ttft_p95<2.0.0ms", "a number before the unit"),
        ("ttft_p95<0ms", "a limit above 0"),
        ("ttft_p95<1s,ttft_p95<2s", "one limit for each statistic"),
    ],
)
def test_a_mistake_is_refused(text, told):
    with pytest.raises(ConfigError, match=told):
        parse_objectives(text)


def test_a_limit_counts_from_the_intended_time_unless_it_says_otherwise():
    objectives = parse_objectives("latency_p95<1s,sent_latency_p99<2s,itl_avg<5ms")
    assert [one.text for one in limits_on("effective_latency", objectives)] == ["latency_p95<1s"]
    assert [one.text for one in limits_on("request_latency", objectives)] == ["sent_latency_p99<2s"]
