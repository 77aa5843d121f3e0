"""Served costs are found from what callers saw: those with which the simulation was made come out again."""

from dataclasses import replace

import numpy as np
import pytest

from serving.generation.settings import EngineSettings
from serving.profiling.served import Callers, figures, fitted
from serving.simulation.closed_loop import closed_loop
from serving.simulation.profile import Served
from serving.simulation.replica import Replica
from tests.serving.simulation.profiles import profile

SETTINGS = EngineSettings(slots=4, prefix_bytes=0)


def seen(made, callers, answer, stream):
    heard = closed_loop(Replica(made, SETTINGS, stream), callers, 12 + 3 * callers, 8, answer)
    loop = Callers(callers=callers, prompt=8, answer=answer, stream=stream)
    return replace(loop, observed=figures(heard))


def test_the_costs_that_callers_met_are_found_again():
    costs = Served(request_s=0.003, request_busy_s=0.004, request_held_s=0.0005, response_s=0.0008, response_wait=0.6)
    made = profile(0.0007, 0.002, served=costs)
    loops = [seen(made, *loop) for loop in ((1, 1, True), (1, 12, True), (4, 12, False), (4, 12, True), (6, 12, True))]
    found, error = fitted(replace(made, served=Served()), SETTINGS, loops)
    assert error < 0.15
    assert (found.request_s, found.response_s) == pytest.approx((costs.request_s, costs.response_s), rel=0.15)
    assert found.response_wait == pytest.approx(costs.response_wait, rel=0.25)


def test_callers_send_when_they_were_answered():
    made = profile(0.01, 0.02, served=Served(request_s=0.005, response_s=0.001))
    heard = closed_loop(Replica(made, SETTINGS), 1, 5, 8, 3)
    ends_s = [one.responses_s[-1] for one in heard]
    assert [one.intended_s for one in heard[1:]] == pytest.approx(ends_s[:-1])
    assert np.diff(ends_s) == pytest.approx(0.005 + 0.02 + 2 * 0.01 + 0.001)


def test_no_more_requests_run_than_there_are_callers():
    heard = closed_loop(Replica(profile(0.01), SETTINGS), 3, 20, 8, 4)
    spans = [(one.intended_s, one.responses_s[-1]) for one in heard]
    assert len(heard) == 20
    for now_s, _ in spans:
        assert sum(began_s <= now_s < ended_s for began_s, ended_s in spans) <= 3
