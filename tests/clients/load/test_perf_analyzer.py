"""A scenario becomes perf_analyzer's input data, intervals and command; it takes them as its source reads them."""

import json
from dataclasses import replace

import numpy as np
import pytest

from clients.load.arrivals import ClosedLoop, Poisson
from clients.load.perf_analyzer import export, input_data
from clients.load.plan import intended_times
from clients.load.questions import Question
from clients.load.scenario import Cancel, Expect, Scenario, Target, Workload
from clients.load.transport import Prepared
from clients.served_model import ServedModel
from models.errors import InputError, OutputError
from tests.clients.load.perf_analyzer_flags import parsed

WORKLOAD = Workload(name="mlp", model="my-mlp", parameters={"priority": 2}, expect=Expect(kind="same"))
SCENARIO = Scenario(workloads=(WORKLOAD,), duration_s=3.0, arrivals=Poisson(rate=20.0))
MODEL = ServedModel(
    name="my-mlp",
    decoupled=False,
    max_batch=8,
    inputs={"x": (2,), "text": (1,)},
    outputs={"y": (3,)},
    dtypes={"x": "float32", "text": "object"},
    parameters={},
)
ROWS = {"x": np.array([[1.5, 2.0]], np.float32), "text": np.array([["naïve".encode()]], np.object_)}


def prepared(model=MODEL, workload=WORKLOAD, inputs=ROWS):
    return Prepared(workload, model, [Question(inputs=inputs)], [None])


def test_input_data_has_contents_and_shapes_without_the_batch():
    assert input_data(prepared()) == {
        "data": [{"x": {"content": [1.5, 2.0], "shape": [2]}, "text": {"content": ["naïve"], "shape": [1]}}]
    }


def test_a_model_without_a_batch_keeps_its_whole_shape():
    assert input_data(prepared(replace(MODEL, max_batch=0)))["data"][0]["x"]["shape"] == [1, 2]


def test_an_open_loop_is_given_as_the_very_intervals(tmp_path):
    (one,) = export(SCENARIO, [prepared()], tmp_path / "made")
    gaps = [int(line) for line in (tmp_path / "made" / "intervals.txt").read_text().split()]
    assert np.cumsum(gaps) / 1e6 == pytest.approx(intended_times(SCENARIO)[0], abs=1e-3)
    assert " ".join(one.command) == (
        "perf_analyzer -m my-mlp -u 127.0.0.1:8001 -i grpc --input-data mlp.json --async "
        "--request-parameter priority:2:int --stability-percentage 999 --profile-export-file mlp-profile.json "
        f"--request-intervals intervals.txt --request-count {len(gaps)}"
    )
    parsed(one.command)
    assert json.loads((tmp_path / "made" / "mlp.json").read_text()) == input_data(prepared())
    assert (tmp_path / "made" / "mlp.sh").stat().st_mode & 0o111


def test_a_closed_loop_of_streams_is_given_by_its_concurrency(tmp_path):
    scenario = replace(SCENARIO, arrivals=ClosedLoop(concurrency=4), duration_s=None, requests=50)
    (one,) = export(scenario, [prepared(replace(MODEL, decoupled=True))], tmp_path)
    asked = parsed(one.command)
    assert (asked.concurrency_range, asked.request_count, asked.streaming) == ("4", "50", True)


def test_a_closed_loop_of_some_seconds_is_measured_in_the_three_windows_that_are_the_least(tmp_path):
    (one,) = export(replace(SCENARIO, arrivals=ClosedLoop(concurrency=2)), [prepared()], tmp_path)
    asked = parsed(one.command)
    assert (asked.concurrency_range, asked.measurement_interval, asked.max_trials) == ("2", "1000", "3")


def test_there_are_no_more_callers_than_requests(tmp_path):
    scenario = replace(SCENARIO, arrivals=ClosedLoop(concurrency=8), duration_s=None, requests=3)
    (one,) = export(scenario, [prepared()], tmp_path)
    assert parsed(one.command).concurrency_range == "3"


def test_parameters_are_passed_on_as_far_as_perf_analyzer_has_words_for_them(tmp_path):
    rich = replace(WORKLOAD, parameters={"priority": 2, "explain": True, "tag": "a", "share": 0.5, "path": "a:b"})
    (one,) = export(SCENARIO, [prepared(workload=rich)], tmp_path)
    assert parsed(one.command).request_parameter == ["priority:2:int", "explain:true:bool", "tag:a:string"]
    assert [line.split(",")[0] for line in one.left_out[1:]] == ["mlp: no parameter path", "mlp: no parameter share"]


def test_http_takes_neither_parameters_nor_streams(tmp_path):
    scenario = replace(SCENARIO, target=Target(transport="http", address="127.0.0.1:8000"))
    (one,) = export(scenario, [prepared()], tmp_path)
    assert parsed(one.command).request_parameter is None
    assert any("no parameter priority" in line for line in one.left_out)
    with pytest.raises(InputError, match="set transport to grpc"):
        export(scenario, [prepared(replace(MODEL, decoupled=True))], tmp_path)


def test_rows_and_shared_memory_are_passed_on(tmp_path):
    scenario = replace(SCENARIO, target=Target(shared_memory=True))
    rows = {"x": np.zeros((3, 2), np.float32)}
    (one,) = export(scenario, [prepared(inputs=rows)], tmp_path)
    asked = parsed(one.command)
    assert (asked.b, asked.shared_memory) == ("3", "system")
    assert input_data(prepared(inputs=rows))["data"] == [{"x": {"content": [0.0, 0.0], "shape": [2]}}] * 3


def test_what_perf_analyzer_cannot_do_is_told(tmp_path):
    rich = replace(WORKLOAD, cancel=Cancel(share=0.1, after_tokens=1), deadline_ms=5.0)
    scenario = replace(SCENARIO, workloads=(rich, replace(WORKLOAD, name="other", expect=Expect())))
    made = export(scenario, [prepared(workload=one) for one in scenario.workloads], tmp_path)
    assert len(made[0].left_out) == 4
    assert made[1].left_out == ("other: it runs alone, at the rate of the whole mix",)


def test_an_openai_endpoint_is_refused(tmp_path):
    openai = replace(SCENARIO, target=Target(transport="openai", address="http://127.0.0.1:9000/v1"))
    with pytest.raises(InputError, match="use AIPerf"):
        export(openai, [prepared()], tmp_path)


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        export(SCENARIO, [prepared()], tmp_path / "file" / "below")
