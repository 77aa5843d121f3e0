"""The search finds the highest load that keeps its objectives, in few runs, and says why it ended."""

import pytest

from clients.load.analysis.search import CLOSE, find_highest, measure_all
from clients.load.analysis.slo import parse_objectives
from clients.load.analysis.summary import summarize
from tests.clients.load.simulated import records, run_of

KEPT = parse_objectives("latency_p95<100ms")


def measured(limit, calls, cpu_share=0.1):
    """A server that answers at once up to a load, and late beyond it."""

    def measure(level):
        calls.append(level)
        found = records(rate=20, count=100, service_s=0.01 if level <= limit else 0.15, jitter=0.1)
        return summarize(run_of(found, cpu_share=cpu_share), KEPT)

    return measure


def test_bisection_ends_close_to_the_limit():
    calls = []
    found = find_highest([10, 20, 40, 80], measured(47.0, calls), runs=8)
    assert calls[:4] == [10, 20, 40, 80]
    assert 47 / CLOSE < found.highest.level <= 47
    assert len(calls) <= 4 + 4
    assert "keeps them and" in found.ended
    assert [step.level for step in found.steps] == sorted(calls)


def test_levels_above_the_first_failure_are_not_measured():
    calls = []
    find_highest([10, 20, 1000, 2000], measured(15.0, calls), runs=0)
    assert calls == [10, 20]


def test_the_number_of_runs_is_bounded():
    calls = []
    found = find_highest([1, 1000], measured(500.0, calls), runs=2)
    assert len(calls) == 4
    assert "no more runs were allowed" in found.ended


@pytest.mark.parametrize(("limit", "told"), [(5.0, "give lower ones"), (99.0, "give higher ones")])
def test_a_limit_outside_the_levels_is_told(limit, told):
    found = find_highest([10, 20], measured(limit, []), runs=5)
    assert told in found.ended
    assert (found.highest is None) == (limit < 10)


def test_whole_levels_are_bisected_in_whole_numbers():
    calls = []
    found = find_highest([1, 16], measured(6.0, calls), runs=9, whole=True)
    assert found.highest.level == 6
    assert all(level == int(level) for level in calls)


def test_a_generator_at_its_limit_ends_the_search():
    quick, busy = measured(10.0, []), measured(10.0, [], cpu_share=1.0)
    found = find_highest([5, 50], lambda level: quick(level) if level <= 10 else busy(level), runs=5)
    assert "the generator was the limit" in found.ended
    assert found.highest.level == 5


def test_a_level_at_which_the_generator_was_disturbed_is_measured_once_more():
    calls = []
    quick, busy = measured(10.0, calls), measured(10.0, calls, cpu_share=1.0)
    found = find_highest([5, 8], lambda level: busy(level) if calls.count(level) == 0 else quick(level), runs=5)
    assert calls == [5, 5, 8, 8]
    assert found.highest.level == 8


def test_a_sweep_measures_every_level_in_order():
    calls = []
    found = measure_all([40, 10], measured(20.0, calls))
    assert calls == [10, 40]
    assert [step.passes for step in found.steps] == [True, False]


def few(level):
    """A level at which too few requests come in the time."""
    return summarize(run_of(records(rate=level, count=int(level * 4)), warmup_s=0.0), KEPT)


def enough(level):
    return few(level) if level * 4 < 40 else measured(47.0, [])(level)


def test_a_level_of_too_few_requests_says_nothing_and_the_next_is_measured():
    found = find_highest([4, 20, 80], enough, runs=8)
    assert 47 / CLOSE < found.highest.level <= 47
    assert (found.steps[0].passes, found.steps[0].fails) == (False, False)


@pytest.mark.parametrize(("levels", "highest"), [([4], None), ([2, 4], None)])
def test_too_few_requests_are_not_blamed_on_the_rate(levels, highest):
    found = find_highest(levels, enough, runs=5)
    assert found.highest is highest
    assert "nothing is known of the server, for at 4 16 requests are too few: 40 at least; let it" in found.ended
    assert "lower ones" not in found.ended


def test_a_generator_at_its_limit_is_not_blamed_on_the_lowest_rate():
    found = find_highest([5, 50], measured(99.0, [], cpu_share=1.0), runs=5)
    assert found.highest is None
    assert "nothing is known of the server, for at 5 the generator was the limit" in found.ended
    assert "lower ones" not in found.ended
    late = run_of(records(rate=20, count=100), lags_s=(0.5,) * 100)
    found = find_highest([5], lambda level: summarize(late, KEPT), runs=5)
    assert "at 5 the generator was the limit: the generator's event loop woke late" in found.ended


@pytest.mark.parametrize("search", [measure_all, lambda levels, measure: find_highest(levels, measure, runs=2)])
def test_a_search_that_is_cut_short_keeps_what_was_measured(search):
    calls = []

    def measure(level):
        if level > 20:
            raise KeyboardInterrupt
        return measured(47.0, calls)(level)

    found = search([10, 20, 40], measure)
    assert ([step.level for step in found.steps], found.interrupted) == ([10, 20], True)
    assert "cut short by Ctrl-C" in found.ended
    with pytest.raises(KeyboardInterrupt):
        search([30], measure)
