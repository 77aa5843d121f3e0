"""A scenario becomes perf_analyzer's input data, intervals and command, as its documentation has them."""

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
        "--request-intervals intervals.txt --measurement-interval 3000 --max-trials 1"
    )
    assert json.loads((tmp_path / "made" / "mlp.json").read_text()) == input_data(prepared())
    assert (tmp_path / "made" / "mlp.sh").stat().st_mode & 0o111


def test_a_closed_loop_of_streams_is_given_by_its_concurrency(tmp_path):
    scenario = replace(SCENARIO, arrivals=ClosedLoop(concurrency=4), duration_s=None, requests=50)
    (one,) = export(scenario, [prepared(replace(MODEL, decoupled=True))], tmp_path)
    assert one.command[-4:] == ["--concurrency-range", "4", "--request-count", "50"]
    assert "--streaming" in one.command


def test_rows_and_shared_memory_are_passed_on(tmp_path):
    scenario = replace(SCENARIO, target=Target(shared_memory=True))
    rows = {"x": np.zeros((3, 2), np.float32)}
    (one,) = export(scenario, [prepared(inputs=rows)], tmp_path)
    assert one.command[one.command.index("-b") + 1] == "3"
    assert one.command[one.command.index("--shared-memory") + 1] == "system"
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
