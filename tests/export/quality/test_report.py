import dataclasses
import json
import math
import shutil

import pytest

from attendant.errors import ParityError
from attendant.manifest import Manifest
from export.quality.agreement import Agreement, StepDrift
from export.quality.budgets import BUDGETS, verdicts_of
from export.quality.measure import measure_artefact
from export.quality.quality import Quality
from export.quality.report import print_quality, quality_to_json
from export.verbs import check
from models.checkpoints.resolve import checkpoint_named
from tests.export.parity.test_check import damage
from tests.export.quality.test_measure import noisy


@pytest.fixture
def in_int4(dates_artefact, tmp_path):
    """Graphs of fp32 that say they are int4, so that the parity check allows what int4 costs."""
    folder = shutil.copytree(dates_artefact, tmp_path / "dates-transformer")
    dataclasses.replace(Manifest.read(folder), precision="int4").write(folder)
    return folder


@pytest.mark.planted
@pytest.mark.slow
def test_check_writes_every_step_into_the_report_and_ends_with_1_beyond_a_budget(in_int4, capsys):
    damage(in_int4, "decoder.ort-cpu", noisy(3.0))
    message = r"of the served graph at most 0\.3, the budget of int4; found .*; .* precision: int4-hqq or int8; see"
    with pytest.raises(ParityError, match=message) as beyond:
        check(in_int4)
    assert beyond.value.exit_status == 1
    shown = capsys.readouterr().out
    assert "held-out dates" in shown
    assert "BEYOND" in shown
    report = json.loads((in_int4 / "parity.json").read_text())
    assert report["passed"] is False
    assert all(level["passed"] for level in report["levels"]), "the budget alone failed"
    served, standard = report["quality"]["forms"]
    assert (served["form"], standard["form"]) == ("served", "standard")
    assert standard["prefix"]["common"] == standard["prefix"]["whole"] == 22000 > served["prefix"]["common"]
    steps = served["agreements"]["logits"]["steps"]
    assert len(steps) == 11
    assert max(step["drift"] for step in steps) == served["agreements"]["logits"]["drift"] > 0.3
    assert served["accuracy"]["loss"] == pytest.approx(100 * (0.9995 - served["accuracy"]["share"]))
    assert report["quality"]["budget"]["why"] == BUDGETS["int4"].why
    broken = {(one["form"], one["limit"]) for one in report["quality"]["verdicts"] if not one["passed"]}
    assert {("served", "drift of logits"), ("served", "KL of logits")} <= broken
    assert "standard" not in {form for form, _ in broken}


def test_an_artefact_is_measured_with_a_model_that_is_loaded_once(digits_artefact, monkeypatch):
    loaded = []

    def noted(name, *options):
        loaded.append(name)
        return checkpoint_named(name, *options)

    monkeypatch.setattr("export.parity.check.checkpoint_named", noted)
    measurements, (quality,) = measure_artefact(digits_artefact)
    assert measurements and quality.accuracy.total
    assert loaded == ["digits-vit"]


def test_what_is_not_finite_is_null_for_programs_and_beyond_for_people(capsys):
    step = StepDrift(largest=math.nan, mean=math.nan, spread=1.0)
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
    step = StepDrift(largest=0.0, mean=0.0, spread=1.0)
    hidden = Agreement(tokens=1, steps=(step,), cosine=0.98765)
    quality = Quality(form="served", questions="random inputs", real=False, agreements={"hidden": hidden})
    print_quality("bert-tiny", "fp32", [quality], verdicts_of([quality], BUDGETS["fp32"]))
    shown = capsys.readouterr().out
    assert "cosine 0.98765" in shown
    assert "mean little" in shown
