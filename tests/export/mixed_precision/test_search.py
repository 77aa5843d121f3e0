"""The search finds the operators that need float32, and no more than needed, in few runs."""

import math
import re

import pytest

from attendant.errors import ExportError
from export.mixed_precision.search import MOST_RUNS, Kind, search
from tests.export.mixed_precision.small_graphs import CANCELLING, OVERFLOWING, write_graph
from tests.export.mixed_precision.test_half import convert, kept_of


class Costs:
    """Stands in for a simulation: independent errors of known size."""

    def __init__(self, costs, floor=0.0):
        self.costs, self.floor, self.runs, self.count = costs, floor, 0, len(costs)

    def drift(self, rounded):
        self.runs += 1
        return math.sqrt(self.floor**2 + sum(self.costs[gate] ** 2 for gate in rounded))


def found_by(costs, budget, kinds=None, fixed=()):
    simulation = Costs(costs)
    found = search(simulation, lambda: kinds or [Kind("MatMul")] * len(costs), fixed, budget)
    assert simulation.runs == found.runs <= MOST_RUNS
    return found


def test_nothing_is_kept_and_one_run_is_enough_within_the_budget():
    found = found_by([0.001] * 100, 0.02)
    assert (found.kept, found.runs) == ({}, 1)


@pytest.mark.parametrize("culprits", [{7}, {0, 511}, {100, 101, 102, 300}])
def test_the_few_that_cost_most_are_kept_and_no_other(culprits):
    costs = [0.0001] * 512
    for gate in culprits:
        costs[gate] = 0.5
    found = found_by(costs, 0.01)
    assert found.kept.keys() == culprits and found.drift <= 0.01 < found.drift_of_all
    assert found.reason(min(culprits)) == "alone 0.5 σ of drift"


def test_an_operator_without_a_finite_answer_is_found_by_halving():
    costs = [0.0] * 1000
    costs[321] = math.inf
    found = found_by(costs, 0.01)
    assert found.kept.keys() == {321} and found.runs < 40
    assert found.reason(321) == "alone no finite answer"


def test_a_kind_of_operator_is_one_group_first():
    kinds = [Kind("MatMul" if gate % 10 else "Exp") for gate in range(500)]
    costs = [0.1 if kind == Kind("Exp") else 0.0 for kind in kinds]
    found = found_by(costs, 0.05, kinds)
    assert {kinds[gate] for gate in found.kept} == {Kind("Exp")} and found.drift <= 0.05


def test_operators_that_all_overflow_are_kept_as_one_in_few_runs():
    kinds = [Kind("Conv", overflows=gate >= 400) for gate in range(500)]
    costs = [math.inf if kind.overflows else 0.0001 for kind in kinds]
    found = found_by(costs, 0.01, kinds)
    assert found.kept.keys() == set(range(400, 500)) and found.runs < 8
    assert found.reason(400) == "with 99 others of its kind alone no finite answer"


def test_a_drift_that_no_rounding_makes_is_an_error():
    with pytest.raises(ExportError, match="in float32 alone"):
        search(Costs([0.1, 0.1], floor=1.0), lambda: [Kind("Add"), Kind("Mul")], (), 0.5)


@pytest.mark.planted
def test_a_sum_that_cancels_is_kept_and_what_is_harmless_is_not(tmp_path):
    outcome, _ = convert(write_graph(tmp_path / "cancel.onnx", CANCELLING), "fp16", budget=0.005)
    kept = kept_of(outcome)
    assert {"lifted", "back"} <= kept.keys() <= {"wide", "lifted", "back"}
    assert outcome.worst <= 0.005 < 0.1 < outcome.typed.found.drift_of_all


@pytest.mark.planted
def test_an_overflow_of_fp16_is_kept_and_bf16_holds_it(tmp_path):
    path = write_graph(tmp_path / "overflow.onnx", OVERFLOWING)
    outcome, _ = convert(path, "fp16", budget=0.005)
    assert re.search(r"alone no finite answer; it reaches \d\.\de\+08, beyond 65504$", kept_of(outcome)["higher"])
    assert "calm" not in kept_of(outcome)
    assert outcome.typed.found.drift_of_all == math.inf and outcome.worst <= 0.005
    outcome, _ = convert(path, "bf16", budget=0.04)
    assert "higher" not in kept_of(outcome)
