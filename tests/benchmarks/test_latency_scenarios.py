"""The latency tests: scenarios that can be run, and questions with known answers."""

import json
from pathlib import Path

import pytest

from benchmarks.latency.bench import as_written
from benchmarks.latency.text_encoder import NAME as TEXT_ENCODER
from clients.load.analysis.summary import summarise
from clients.load.arrivals import ClosedLoop
from clients.load.run_file import read_run
from clients.load.scenario_file import read_scenario
from models.checkpoints.place import shipped_names

PLACE = Path(__file__).parent.parent.parent / "benchmarks" / "latency"
SCENARIOS = sorted(PLACE.glob("*.toml"))


def test_every_shipped_model_has_a_scenario_and_the_one_that_embeds():
    asked = {workload.model for path in SCENARIOS for workload in read_scenario(path).workloads}
    assert asked == {*shipped_names(), TEXT_ENCODER}


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
    baseline = summarise(read_run(PLACE / "baselines" / f"{path.stem}.json"))
    assert not baseline.verdict.reasons
    assert baseline.run.scenario == as_written(path).plain()
