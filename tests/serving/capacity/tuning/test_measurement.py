"""A way to serve on a real Triton: its figure, or why there is none."""

from pathlib import Path

import pytest

from clients.load.analysis.slo import parse_objectives
from clients.load.arrivals import Constant
from serving.capacity.demand import Demand
from serving.capacity.lengths import ConstantLength
from serving.capacity.profiling.requests import create_scenario
from serving.capacity.tuning.measurement import Bench
from serving.capacity.tuning.prediction import TuningTask
from serving.capacity.tuning.search_space import Candidate
from tests.clients.load.simulated import records, run_of


def bench(artefact, goal, objectives="", duration_s=3.0):
    demand = Demand(rate=20.0, prompt=ConstantLength(tokens=4), answer=ConstantLength(tokens=6))
    task = TuningTask(goal=goal, demand=demand, objectives=parse_objectives(objectives))
    return Bench(artefact=artefact, task=task, objectives=task.objectives, duration_s=duration_s)


def has_figure(measured, most):
    return measured.value is not None and 0 < measured.value < most


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_latency_is_measured_at_the_demands_rate_and_a_miss_is_named(language_model):
    two = Candidate(max_num_seqs=2, instances=2)
    found = bench(language_model, "latency").measure(two, 0.1, "two processes")
    assert has_figure(found, 5.0) and (not found.problem or ";" in found.problem)
    missed = bench(language_model, "ttft", "ttft p95 < 1 us").measure(Candidate(), 0.1, "an objective")
    assert missed.value is None and missed.problem


@pytest.mark.patient
@pytest.mark.timeout(300)
def test_a_rate_is_that_of_slots_which_are_always_full_or_the_highest_within_objectives(language_model):
    full = bench(language_model, "throughput").measure(Candidate(max_num_seqs=2), 100.0, "full slots")
    assert has_figure(full, 1e5)
    within = bench(language_model, "throughput", "latency p95 < 5 s", 2.0).measure(Candidate(), 60.0, "within")
    assert within.problem or within.value >= 0.4 * 60
    assert within.problem or within.remark or within.interval[0] < within.interval[1]


def test_a_rate_at_which_the_generator_was_late_is_too_high_for_this_machine(monkeypatch):
    asked = []

    def run(scenario, title, keep_interrupted):
        rate = scenario.arrivals.rate
        asked.append(rate)
        return run_of(records(rate=rate, count=200, service_s=0.001, lag_s=0.03 if rate > 30 else 0.0))

    monkeypatch.setattr("serving.capacity.tuning.measurement.run_with_progress", run)
    arrivals = Constant(rate=1.0)
    scenario = create_scenario("127.0.0.1:1", "lm", Path("lm.jsonl"), arrivals, warmup_s=1.0, duration_s=3.0)
    found = bench(Path("lm"), "throughput", "latency p95 < 5 s")._search(scenario, 200.0)
    assert asked[0] == pytest.approx(80.0) and max(asked) < 81, "nothing higher is asked for"
    assert 0.25 * 0.4 * 200 <= found.value <= 30 and "the generator was the limit" in found.remark
