"""A summary says of every objective whether it was met, and of every workload what it met."""

from dataclasses import replace

import pytest

from clients.load.analysis.slo import parse_objectives
from clients.load.analysis.summary import summarize
from tests.clients.load.simulated import records, run_of


def test_objectives_are_met_and_missed():
    run = run_of(records(rate=20, count=400, tokens=6))
    summary = summarize(run, parse_objectives("ttft_p95<1s,itl_p95<1us"))
    assert [one.met for one in summary.objectives] == [True, False]
    assert not summary.met
    low, high = summary.objectives[0].intervals
    assert low <= summary.objectives[0].found_s <= high


def test_an_objective_on_a_figure_that_does_not_exist_is_missed():
    summary = summarize(run_of(records(rate=20, count=400)), parse_objectives("ttft_p95<1s"))
    assert [(one.found_s, one.met) for one in summary.objectives] == [(None, False)]


def test_each_workload_has_its_own_figures():
    quick, slow = records(rate=5, count=200), records(rate=5, count=200, service_s=0.05, seed=1)
    slow = [replace(one, workload="large", number=one.number + 200) for one in slow]
    summary = summarize(run_of(sorted([*quick, *slow], key=lambda one: one.scheduled_s)))
    assert list(summary.by_workload) == ["digits", "large"]
    halves = [found["request_latency"].value("p50") for found in summary.by_workload.values()]
    assert halves[1] > 3 * halves[0]
    assert "queue_time" not in summary.by_workload["large"]


def test_the_scenarios_warm_up_is_in_no_figure():
    run = run_of(records(rate=20, count=400), warmup_s=5.0)
    assert summarize(run).window.begins_s >= 5.0


@pytest.mark.parametrize("tokens", [0, 3])
def test_one_workload_is_not_told_apart(tokens):
    assert summarize(run_of(records(rate=20, count=100, tokens=tokens))).by_workload == {}
