"""The warm-up is found and left out; what never settles is told."""

from dataclasses import replace

import numpy as np
import pytest

from clients.load.analysis.steady import steady_window
from tests.clients.load.simulated import records


def test_a_warm_up_is_left_out():
    found = records(rate=20, count=800, warm=150, seed=1)
    window = steady_window(found)
    assert window.unsteady == ""
    assert found[120].scheduled_s <= window.begins_s <= found[300].scheduled_s
    assert window.ends_s == found[-1].sent_s


def test_little_is_left_out_of_a_run_that_is_steady_from_its_first_request():
    begins = [steady_window(records(rate=30, count=800, seed=seed)).begins_s for seed in range(8)]
    assert np.median(begins) < 0.1 * 800 / 30


def test_the_scenarios_own_warm_up_is_left_out_too():
    found = records(rate=30, count=600)
    assert steady_window(found, warmup_s=4.0).begins_s >= 4.0


def test_a_steady_run_is_seldom_called_unsteady():
    assert sum(bool(steady_window(records(rate=20, count=600, seed=seed)).unsteady) for seed in range(60)) <= 2


@pytest.mark.parametrize("seed", range(4))
def test_a_queue_that_grows_is_no_steady_state(seed):
    window = steady_window(records(rate=130, count=1000, seed=seed))
    assert "go on changing" in window.unsteady
    assert window.begins_s == 0.0 or window.begins_s < 0.1


def test_a_run_that_slows_down_in_its_middle_is_no_steady_state():
    first, later = records(rate=20, count=500, service_s=0.01), records(rate=20, count=500, service_s=0.016, seed=5)
    end = first[-1].ended_s
    moved = [
        replace(one, scheduled_s=one.scheduled_s + end, sent_s=one.sent_s + end, ended_s=one.ended_s + end)
        for one in later
    ]
    window = steady_window([*first, *moved])
    assert window.unsteady or window.begins_s >= 0.8 * end


def test_one_stall_late_in_a_run_is_not_taken_for_a_change():
    found = records(rate=20, count=800, seed=2)
    found[500] = replace(found[500], ended_s=found[500].ended_s + 0.5)
    assert steady_window(found).unsteady == ""


def test_a_handful_of_requests_is_too_few():
    assert "10 requests answered; 40 at least" in steady_window(records(count=10)).unsteady


def test_a_run_without_requests_has_an_empty_window():
    window = steady_window([])
    assert (window.seconds, window.unsteady[:1]) == (0.0, "0")
