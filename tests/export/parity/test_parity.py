import json
import math
from pathlib import Path

import numpy as np
import pytest

from attendant.errors import OutputError, ParityError
from export.parity.parity import SAFETY, YARDSTICK, compare, levels_of, read_passed, require_parity, write_report

NOTHING_LOST = {"verdicts": []}
REFERENCE = np.ones((2, 3))


def measured(level, difference):
    return compare("model", level, f"off by {difference}", (REFERENCE + difference), REFERENCE)


def test_a_tolerance_is_a_multiple_of_the_eager_models_own_error():
    eager, runtime = levels_of([measured(YARDSTICK, 1e-3), measured("ort float32", 7.9e-3)])
    assert eager.tolerance == runtime.tolerance == pytest.approx(SAFETY * 1e-3)
    assert runtime.passed


def test_an_error_beyond_it_fails_and_names_the_case(tmp_path):
    levels = levels_of([measured(YARDSTICK, 1e-3), measured("ort float32", 1e-5), measured("ort float32", 8.1e-3)])
    with pytest.raises(ParityError, match=r"off by 0\.0081"):
        require_parity(levels, tmp_path)


def test_a_float64_runner_is_held_to_float64():
    _, cached = levels_of([measured(YARDSTICK, 1e-3), measured("cached eager float64", 1e-10)])
    assert not cached.passed


def test_a_result_that_is_not_finite_fails():
    broken = compare("model", "ort float32", "nan", np.full((2, 3), np.nan), REFERENCE)
    assert not levels_of([measured(YARDSTICK, 1e-3), broken])[1].passed


def test_a_result_of_another_shape_fails():
    broken = compare("model", "ort float32", "shape", np.ones((3, 2)), REFERENCE)
    assert math.isnan(broken.error)
    assert not levels_of([measured(YARDSTICK, 1e-3), broken])[1].passed


def test_an_eager_model_without_error_still_leaves_room_for_one_rounding():
    _, runtime = levels_of([measured(YARDSTICK, 0.0), measured("ort float32", 1.2e-7)])
    assert runtime.passed


def test_the_report_is_a_file_beside_the_graphs(tmp_path):
    measurements = [measured(YARDSTICK, 1e-3), measured("ort float32", 9e-3)]
    value = json.loads(write_report(measurements, levels_of(measurements), tmp_path, NOTHING_LOST).read_text())
    assert value["passed"] is False
    assert [level["passed"] for level in value["levels"]] == [True, False]
    assert len(value["cases"]) == 2


def test_a_folder_that_cannot_be_written_is_refused():
    measurements = [measured(YARDSTICK, 1e-3)]
    with pytest.raises(OutputError, match=r"/proc/parity\.json"):
        write_report(measurements, levels_of(measurements), Path("/proc"))


def test_a_budget_that_does_not_hold_fails_the_report(tmp_path):
    measurements = [measured(YARDSTICK, 1e-3)]
    beyond = {"verdicts": [{"limit": "KL of logits", "passed": False}]}
    value = json.loads(write_report(measurements, levels_of(measurements), tmp_path, beyond).read_text())
    assert value["levels"][0]["passed"] is True
    assert value["passed"] is False
    assert value["quality"] == beyond


def test_a_report_that_passed_is_read_again_and_no_other(tmp_path):
    measurements = [measured(YARDSTICK, 1e-3), measured("ort float32", 2e-3)]
    levels = levels_of(measurements)
    assert read_passed(tmp_path) is None
    report = write_report(measurements, levels, tmp_path, NOTHING_LOST)
    found = read_passed(tmp_path)
    assert [(one.graph, one.name, one.cases, one.worst.error, one.worst.case, one.tolerance) for one in found] == [
        (one.graph, one.name, one.cases, one.worst.error, one.worst.case, one.tolerance) for one in levels
    ]
    whole = json.loads(report.read_text())
    for changed in (
        {"passed": False},
        {"passed": 1},
        {"levels": []},
        {"levels": 5},
        {"runtimes": {**whole["runtimes"], "onnxruntime": "0.1"}},
        {"levels": [{**whole["levels"][1], "max_error": 1.0}]},
        {"levels": [{**whole["levels"][1], "max_error": None}]},
    ):
        report.write_text(json.dumps({**whole, **changed}))
        assert read_passed(tmp_path) is None, changed
    report.write_text("{")
    assert read_passed(tmp_path) is None
