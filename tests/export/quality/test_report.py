import dataclasses
import json
import math
import shutil
import subprocess
import sys

import pytest

from export.quality.agreement import Agreement, Step
from export.quality.budgets import BUDGETS, verdicts_of
from export.quality.measure import Quality
from export.quality.report import print_quality, quality_to_json
from models.manifest import Manifest
from tests.export.quality.test_measure import noisy
from tests.export.test_ladder import damage


def check(folder):
    command = [sys.executable, "-m", "export", "check", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


@pytest.fixture
def in_int4(dates_artefact, tmp_path):
    """Graphs of fp32 that say they are int4, so that the ladder allows what int4 costs."""
    folder = shutil.copytree(dates_artefact, tmp_path / "dates-transformer")
    dataclasses.replace(Manifest.read(folder), precision="int4").write(folder)
    return folder


def test_check_writes_every_step_into_the_report_and_ends_with_1_beyond_a_budget(in_int4):
    within = check(in_int4)
    assert within.returncode == 0, within.stderr
    assert "held-out dates" in within.stdout
    assert "22000 of 22000" in within.stdout
    whole = json.loads((in_int4 / "parity.json").read_text())
    damage(in_int4, "decoder.ort-cpu", noisy(3.0))
    beyond = check(in_int4)
    assert beyond.returncode == 1
    assert "of the served graph at most 0.3, the budget of int4; found" in beyond.stderr
    assert "export in a more exact precision: int4-hqq or int8" in beyond.stderr
    assert "BEYOND" in beyond.stdout
    broken = json.loads((in_int4 / "parity.json").read_text())
    assert (whole["passed"], broken["passed"]) == (True, False)
    assert all(rung["passed"] for rung in broken["rungs"]), "the budget alone failed"
    served, standard = broken["quality"]["forms"]
    assert (served["form"], standard["form"]) == ("served", "standard")
    steps = served["agreements"]["logits"]["steps"]
    assert len(steps) == 11
    assert max(step["drift"] for step in steps) == served["agreements"]["logits"]["drift"] > 0.3
    assert served["accuracy"]["loss"] == pytest.approx(100 * (0.9995 - served["accuracy"]["share"]))
    assert broken["quality"]["budget"]["why"] == BUDGETS["int4"].why
    assert {"drift of logits", "KL of logits"} <= {
        one["limit"] for one in broken["quality"]["verdicts"] if not one["passed"]
    }


def test_what_is_not_finite_is_null_for_programs_and_beyond_for_people(capsys):
    step = Step(largest=math.nan, mean=math.nan, spread=1.0)
    logits = Agreement(tokens=1, steps=(step,), cosine=math.nan, kl_mean=math.nan, kl_largest=math.inf, top1=0.0)
    quality = Quality(form="served", questions="dates", real=True, agreements={"logits": logits})
    verdicts = verdicts_of([quality], BUDGETS["fp32"])
    value = json.loads(json.dumps(quality_to_json("fp32", [quality], verdicts), allow_nan=False))
    assert value["forms"][0]["agreements"]["logits"]["drift"] is None
    assert not any(verdict["passed"] for verdict in value["verdicts"])
    print_quality("broken", "fp32", [quality], verdicts)
    shown = capsys.readouterr().out
    assert "BEYOND" in shown
    assert "nan" in shown


def test_of_random_inputs_the_table_says_what_they_are_worth(capsys):
    step = Step(largest=0.0, mean=0.0, spread=1.0)
    hidden = Agreement(tokens=1, steps=(step,), cosine=0.98765)
    quality = Quality(form="served", questions="random inputs", real=False, agreements={"hidden": hidden})
    print_quality("bert-tiny", "fp32", [quality], verdicts_of([quality], BUDGETS["fp32"]))
    shown = capsys.readouterr().out
    assert "cosine 0.98765" in shown
    assert "mean little" in shown
