"""What got worse is found, what only looks so is not, and runs that say nothing are refused."""

import pytest

from attendant.errors import InputError
from clients.load.analysis.comparison import compare, differences
from clients.load.analysis.summary import summarize
from tests.clients.load.simulated import records, run_of


def summary(seed, **given):
    return summarize(run_of(records(**{"rate": 20, "count": 600, "tokens": 8, "seed": seed} | given)))


def test_runs_of_the_same_server_are_alike():
    found = [one for seed in range(3) for one in compare(summary(seed), summary(seed + 50))]
    assert len(found) >= 3 * 6
    assert sum(one.differs for one in found) <= 1


def test_a_slower_server_is_worse_in_what_it_slowed_and_nothing_else():
    found = {(one.metric, one.statistic): one for one in compare(summary(1), summary(2, token_s=0.003))}
    slowed = found["inter_token_latency", "p50"]
    assert slowed.ratio == pytest.approx(1.5, rel=0.05)
    assert slowed.low > 1.4 and slowed.high < 1.6
    assert slowed.worse(0.05)
    assert not slowed.worse(0.8)
    assert not found["effective_time_to_first_token", "p95"].worse(0.05)
    assert not found["request_throughput", "avg"].worse(0.05)


def test_a_faster_server_is_not_worse():
    found = compare(summary(1, token_s=0.003), summary(2))
    assert any(one.differs for one in found)
    assert not any(one.worse(0.0) for one in found)


def test_less_throughput_is_worse():
    found = {one.metric: one for one in compare(summary(1, rate=40), summary(2, rate=20)) if one.statistic == "avg"}
    assert found["request_throughput"].worse(0.05)
    assert not found["request_throughput"].lower_is_better


def test_a_percentile_without_ten_requests_beyond_it_is_not_compared():
    statistics = {one.statistic for one in compare(summary(1), summary(2))}
    assert statistics == {"p50", "p95", "avg"}


def test_an_invalid_run_is_refused():
    overloaded = summary(1, rate=150)
    with pytest.raises(InputError, match=r"two valid runs.*no steady state"):
        compare(summary(1), overloaded)


def test_scenarios_that_differ_are_told():
    first = {"arrivals": {"kind": "poisson", "rate": 10.0}, "workloads": [{"name": "a"}]}
    second = {"arrivals": {"kind": "closed"}, "workloads": [{"name": "a"}]}
    assert differences(first, second) == ["arrivals.kind: poisson → closed", "arrivals.rate: 10.0 → none"]
    assert differences(first, first) == []
