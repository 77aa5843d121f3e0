"""The search for settings: what is simulated and measured, which is chosen, and how honest its words are."""

import pytest

from attendant.errors import ConfigError
from clients.load.analysis.slo import parse_objectives
from serving.capacity.demand import Demand
from serving.capacity.lengths import ConstantLength
from serving.capacity.table import TimeTable
from serving.capacity.tuning.measurement import Measured
from serving.capacity.tuning.prediction import TuningTask, predict
from serving.capacity.tuning.report import conclusion, print_tuning, tuning_json
from serving.capacity.tuning.search_space import DEFAULTS, Candidate, list_candidates
from serving.capacity.tuning.tune import tune
from tests.serving.capacity.profiles import profile

ROWS = TimeTable(sizes=(1, 64), lengths=(1, 1024), seconds=((0.01, 0.01), (0.073, 0.073)))
"""9 ms a step and 1 ms a row: more slots answer more requests, and each of them later."""
SPACE = [DEFAULTS, *(Candidate(max_num_seqs=slots) for slots in (1, 4, 32))]


def task(goal="throughput", rate=20.0, objectives=""):
    demand = Demand(rate=rate, prompt=ConstantLength(tokens=4), answer=ConstantLength(tokens=10))
    return TuningTask(goal=goal, demand=demand, objectives=parse_objectives(objectives), requests=300)


def rows(threads):
    return profile(decode=ROWS)


def as_simulated(asked, factor=1.0, **others):
    """What measures a candidate as it is simulated, times a factor; or what is said of its slots."""

    def measure(candidate, expected, title):
        value = factor * predict(asked, candidate, rows(1))
        return others.get(f"slots_{candidate.max_num_seqs}", Measured(value=value))

    return measure


def lines(found):
    return "\n".join(conclusion(found, "build/lm"))


def test_slots_bring_throughput_as_the_profile_says():
    one, four = (predict(task(), Candidate(max_num_seqs=slots), rows(1)) for slots in (1, 4))
    assert one == pytest.approx(1 / 0.12, rel=0.1) and four > 2.5 * one
    assert predict(task(), Candidate(max_num_seqs=1, instances=2), rows(1)) == pytest.approx(2 * one, rel=0.01)


def test_objectives_bound_the_rate():
    free, bound = (predict(task(objectives=text), DEFAULTS, rows(1)) for text in ("", "itl p95 < 15 ms"))
    assert 0 < bound < 0.8 * free
    assert predict(task(objectives="itl_p95<1ms"), DEFAULTS, rows(1)) == 0


def test_the_best_few_and_the_defaults_are_measured_and_the_best_of_them_is_recommended(capsys):
    measured = []

    def measure(candidate, expected, title):
        measured.append((candidate.max_num_seqs, expected))
        return as_simulated(task(), 0.5)(candidate, expected, title)

    found = tune(task(), SPACE, rows, measure, finalists=1)
    assert [slots for slots, _ in measured] == [16, 32], "the defaults, and the best of the others"
    assert found.best.candidate.max_num_seqs == 32
    assert measured[1][1] == pytest.approx(found.best.value), "what is expected follows what the defaults did"
    said = lines(found)
    assert "attendant repository build/lm --out build/repository --threads 1 --instances 1 --max-num-seqs 32" in said
    assert "times of what the defaults do" in said and "2 others were simulated alone" in said
    assert "disagree" not in said
    print_tuning(found, "build/lm")
    assert "best" in capsys.readouterr().out and tuning_json(found)["best"]["max_num_seqs"] == 32


def test_a_latency_is_made_small():
    asked = task("latency", rate=12.0)
    found = tune(asked, SPACE, rows, as_simulated(asked), finalists=3)
    values = {trial.candidate.max_num_seqs: trial.value for trial in found.trials if trial.measured}
    assert found.best.value <= min(values.values()) * 1.06 and values[1] > values[16], "one slot makes others wait"


@pytest.mark.planted
def test_a_gain_that_runs_cannot_tell_leaves_the_defaults():
    almost = Measured(value=1.04 * predict(task(), DEFAULTS, rows(1)))
    found = tune(task(), SPACE, rows, as_simulated(task(), slots_32=almost), finalists=1)
    assert found.best.candidate == DEFAULTS and "as good as any other" in lines(found)


def test_what_is_said_of_a_candidate_stands_in_one_line(capsys):
    no = Measured(value=None, problem="the generator was the limit")
    found = tune(task(), SPACE, rows, as_simulated(task(), slots_16=no, slots_32=no), finalists=1)
    print_tuning(found, "build/lm")
    assert "the defaults, INVALID" in capsys.readouterr().out


@pytest.mark.planted
def test_where_simulation_and_measurement_disagree_it_is_said():
    slow = Measured(value=0.5 * predict(task(), DEFAULTS, rows(1)))
    found = tune(task(), SPACE, rows, as_simulated(task(), slots_32=slow), finalists=2)
    assert "disagree by -" in lines(found) and "--max-num-seqs 32 --max-prefill-tokens 256: believe what was" in lines(
        found
    )
    assert found.best.candidate == DEFAULTS


@pytest.mark.planted
def test_what_is_invalid_is_never_recommended_and_says_what_to_do():
    wrong = Measured(value=1e6, problem="too few requests; send more")
    found = tune(task(), SPACE, rows, as_simulated(task(), slots_32=wrong), finalists=1)
    assert found.best.candidate == DEFAULTS and "INVALID, " in lines(found) and "send more" in lines(found)
    found = tune(task(), SPACE[:1], rows, as_simulated(task(), slots_16=wrong))
    assert (
        found.best is None and "no settings to recommend" in lines(found) and "attendant repository" not in lines(found)
    )


def test_ctrl_c_keeps_what_was_measured():
    cut = Measured(value=None, problem="cut short", interrupted=True)
    found = tune(task(), SPACE, rows, as_simulated(task(), slots_32=cut), finalists=3)
    assert found.interrupted and found.best.candidate == DEFAULTS

    def interrupt(candidate, expected, title):
        if candidate != DEFAULTS:
            raise KeyboardInterrupt
        return Measured(value=1.0)

    found = tune(task(), SPACE, rows, interrupt)
    assert found.interrupted and found.best.value == 1.0
    with pytest.raises(KeyboardInterrupt):
        tune(task(), SPACE, rows, lambda *_: interrupt(None, 0, ""))


def test_defaults_that_cannot_keep_the_objectives_are_said_to_and_not_measured():
    asked = task("latency", rate=40.0, objectives="latency p95 < 400 ms")
    space = [DEFAULTS, Candidate(instances=4)]
    found = tune(asked, space, rows, as_simulated(asked), finalists=1)
    assert found.best.candidate.instances == 4 and "the defaults cannot keep the objectives" in lines(found)
    assert None in [one["simulated"] for one in tuning_json(found)["trials"]], "JSON has no infinity"


def test_objectives_that_nothing_keeps_are_refused_before_a_server_is_started():
    with pytest.raises(ConfigError, match="none does") as refused:
        tune(task(objectives="itl_p95<1ms"), SPACE, rows, lambda *_: pytest.fail("measured"))
    assert "--exploratory" not in refused.value.remedy, "it would change nothing: there is no figure to measure around"


def test_every_combination_has_a_core_for_each_thread_and_the_defaults_are_the_first():
    found = list_candidates((4, 16), (256,), (), (), cores=4)
    assert found[0] == DEFAULTS and len(set(found)) == len(found) == 2 * 6
    assert {(one.threads, one.instances) for one in found} == {(1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (4, 1)}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (((0,), (1,), (), ()), "at least 1 to try; found 0"),
        (((), (1,), (), ()), "at least 1 to try; found none"),
        (((4,), (), (), ()), "at least 1 to try; found none"),
        (((1,), (1,), (8,), (8,)), "at most 4, the cores"),
        ((tuple(range(1, 999)), (1,), (1,), (1,)), "at most 512 combinations; found 998"),
    ],
)
def test_a_space_that_cannot_be_searched_is_refused(asked, message):
    with pytest.raises(ConfigError, match=message):
        list_candidates(*asked, cores=4)
