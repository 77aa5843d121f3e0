"""The latency tests: scenarios that can be run, and questions with known answers."""

import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.harness.sample_models import TEXT_ENCODER
from benchmarks.latency import __main__ as latency
from benchmarks.latency.__main__ import read_as_written
from clients.load.analysis.summary import summarize
from clients.load.arrivals import ClosedLoop
from clients.load.record import RequestOutcome
from clients.load.run_file import read_run
from clients.load.scenario_file import read_scenario
from models.checkpoints.place import shipped_names

PLACE = Path(__file__).parent.parent.parent / "benchmarks" / "latency"
SCENARIOS = sorted(PLACE.glob("*.toml"))


def test_every_shipped_model_has_a_scenario_and_those_that_embed_and_predict():
    asked = {workload.model for path in SCENARIOS for workload in read_scenario(path).workloads}
    assert asked == {*shipped_names(), TEXT_ENCODER, latency.CUSTOM_MODEL}


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_checks_every_answer_of_an_open_loop(path):
    scenario = read_scenario(path)
    assert not isinstance(scenario.arrivals, ClosedLoop)
    assert scenario.warmup_s > 0
    assert scenario.in_process.repository
    for workload in scenario.workloads:
        assert workload.expect.kind != "nothing"
        assert all(Path(name).is_file() for name in workload.inputs.files)


@pytest.mark.parametrize("path", sorted(PLACE.glob("questions/*.jsonl")), ids=lambda path: path.stem)
def test_every_question_has_its_answer(path):
    questions = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(questions) == 40
    assert all(question["answer"] for question in questions)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_has_a_valid_baseline_of_itself(path):
    baseline = summarize(read_run(PLACE / "baselines" / f"{path.stem}.json"))
    assert not baseline.validity.reasons
    assert baseline.run.scenario == read_as_written(path).plain()


def slower(run, times, behind=0.0):
    """The same run, had every answer behind a time taken so many times as long."""

    def later(one):
        if one.scheduled_s < behind:
            return one
        ended_s, responses_s = (
            [one.scheduled_s + times * (at - one.scheduled_s) for at in ats] for ats in ([one.ended_s], one.responses_s)
        )
        return replace(one, ended_s=ended_s[0], responses_s=tuple(responses_s))

    return replace(run, records=tuple(map(later, run.records)))


def with_a_wrong_answer(run):
    first, *others = run.records
    return replace(run, records=(replace(first, outcome=RequestOutcome.WRONG, error="another label"), *others))


@pytest.mark.parametrize(
    ("made", "status", "runs"),
    [
        ([lambda run: run], 0, 1),
        ([lambda run: slower(run, 2), lambda run: run], 0, 2),
        ([lambda run: slower(run, 2)] * latency.TRIES, 1, latency.TRIES),
        ([lambda run: slower(run, 0.6, behind=6.0)], 0, 1),
        ([lambda run: slower(run, 2.0, behind=6.0)] * latency.TRIES, 1, latency.TRIES),
        ([with_a_wrong_answer], 1, 1),
    ],
    ids=["as before", "slower once", "slower each time", "ever faster", "ever slower", "a wrong answer"],
)
def test_a_scenario_is_run_again_where_it_was_slower_and_fails_where_it_is_so_each_time(tmp_path, made, status, runs):
    name = "classify-digits-vit"
    before = read_run(latency.BASELINES / f"{name}.json")
    turns = iter(made)
    asked = Namespace(out=tmp_path, tolerance=latency.TOLERANCE, tries=latency.TRIES)
    assert latency.try_scenario(name, lambda: next(turns)(before), asked) == status
    assert len(made) - len(list(turns)) == runs


def test_of_the_valid_runs_the_middle_one_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(latency, "BASELINES", tmp_path)
    before = read_run(PLACE / "baselines" / "classify-digits-vit.json")
    runs = iter([slower(before, 1.2), before, slower(before, 1.1)])
    assert latency.keep_baseline("one", lambda: next(runs), Namespace(tries=3)) == 0
    assert read_run(tmp_path / "one.json").records == slower(before, 1.1).records
    assert latency.keep_baseline("two", lambda: with_a_wrong_answer(before), Namespace(tries=3)) == 1
    assert not (tmp_path / "two.json").exists()
