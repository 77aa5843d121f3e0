from collections import Counter
from itertools import islice

import numpy as np
import pytest

from attendant.errors import InputError
from clients.load.arrivals import Poisson, Replay
from clients.load.request_inputs import RequestInput
from clients.load.scenario import Cancel, Scenario, Workload
from clients.load.schedule import draw_schedule, plan_requests
from clients.load.transport import PreparedWorkload


def scenario(**changes):
    workloads = (
        Workload(name="often", model="a", weight=3.0),
        Workload(name="seldom", model="b", cancel=Cancel(share=0.25, after_tokens=1)),
    )
    return Scenario(**{"workloads": workloads, "duration_s": 10.0, **changes})


def prepared(one, inputs=3):
    return [PreparedWorkload(workload, None, [RequestInput(tensors={})] * inputs, []) for workload in one.workloads]


def drawn(one, number, names=()):
    return list(islice(plan_requests(one, prepared(one), names), number))


def test_workloads_are_mixed_by_their_weights_and_a_share_is_taken_back():
    found = drawn(scenario(), 20_000)
    often = [choice for choice in found if choice.workload == 0]
    seldom = [choice for choice in found if choice.workload == 1]
    assert abs(len(often) / len(found) - 0.75) < 0.02
    assert not any(choice.cancel for choice in often)
    assert abs(np.mean([choice.cancel for choice in seldom]) - 0.25) < 0.03


def test_inputs_of_a_workload_come_in_turn():
    found = [choice.input for choice in drawn(scenario(), 100) if choice.workload == 0]
    assert found == [turn % 3 for turn in range(len(found))]


def test_the_same_seed_chooses_the_same_requests():
    assert drawn(scenario(seed=1), 2000) == drawn(scenario(seed=1), 2000)
    assert drawn(scenario(seed=1), 2000) != drawn(scenario(seed=2), 2000)


def test_arrivals_do_not_change_with_the_mix():
    arrivals = Poisson(rate=30)
    one = Scenario(workloads=(Workload(name="a", model="a"),), duration_s=10.0, arrivals=arrivals)
    assert draw_schedule(one)[0].tolist() == draw_schedule(scenario(arrivals=arrivals))[0].tolist()


def test_a_number_of_requests_is_counted_behind_the_warm_up():
    found, _ = draw_schedule(scenario(arrivals=Poisson(rate=30), duration_s=None, requests=40, warmup_s=2.0))
    assert (found >= 2.0).sum() == 40
    assert 30 < (found < 2.0).sum() < 90


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "number,scheduled_s,workload\n0,5.0,seldom\n1,5.5,often\n2,7.0,seldom\n"),
        ("t.jsonl", '{"scheduled_s": 7, "workload": "seldom"}\n{"scheduled_s": 5, "workload": "seldom"}\n'
                    '{"scheduled_s": 5.5, "workload": "often"}\n'),
    ],
)  # fmt: skip
def test_a_trace_is_replayed_from_its_first_request_faster_by_the_speed(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    one = scenario(arrivals=Replay(trace=str(path), speed=2.0))
    found, names = draw_schedule(one)
    assert found.tolist() == [0.0, 0.25, 1.0]
    assert [one.workloads[choice.workload].name for choice in drawn(one, 3, names)] == ["seldom", "often", "seldom"]


def test_a_trace_without_workloads_is_mixed_by_the_weights(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"scheduled_s": 0}\n' * 400)
    one = scenario(arrivals=Replay(trace=str(path)))
    _, names = draw_schedule(one)
    assert Counter(choice.workload for choice in drawn(one, 400, names))[0] > 250


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}\n", "no json\n", '{"scheduled_s": 1, "workload": "else"}\n', "[1]\n", '{"scheduled_s": [1]}\n'),
        *(
            '{"scheduled_s": NaN}\n',
            '{"scheduled_s": Infinity}\n',
            '{"scheduled_s": 1, "workload": [1]}\n',
            '{"scheduled_s": 0}\n{"scheduled_s": 1e300}\n',
            f'{{"scheduled_s": {"9" * 400}}}\n',
            "[" * 99_999,
        ),
    ],
)
def test_a_trace_that_cannot_be_replayed_is_refused(tmp_path, text):
    path = tmp_path / "t.jsonl"
    path.write_text(text)
    with pytest.raises(InputError):
        draw_schedule(scenario(arrivals=Replay(trace=str(path))))


def test_a_trace_may_be_stretched_within_reason(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("scheduled_s\n1\n2\n")
    with pytest.raises(InputError, match="more than 1e\\+07"):
        draw_schedule(scenario(arrivals=Replay(trace=str(path), speed=1e-300)))


def test_a_trace_of_too_many_lines_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("clients.load.schedule.MOST_TRACE_LINES", 2)
    path = tmp_path / "t.csv"
    path.write_text("scheduled_s\n1\n2\n")
    with pytest.raises(InputError, match="more than 2 lines"):
        draw_schedule(scenario(arrivals=Replay(trace=str(path))))
