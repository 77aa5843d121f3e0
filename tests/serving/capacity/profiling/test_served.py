"""A trace of a server says what serving adds to its engine; of one written by hand, what was written."""

import numpy as np
import pytest

from attendant.errors import ServerError
from clients.load.record import RequestRecord
from serving.capacity.profiling.served import during, read_trace, served_of
from serving.capacity.profiling.traced import Trace
from tests.serving.capacity.profiles import profile

# The first request finds the engine asleep, the second comes within a step; reading should take 20 ms, decoding 10.
RUNS = [[10.001, "decoder", 1, 5, 5], [10.061, "decoder", 1, 1, 6], [10.081, "decoder", 1, 7, 7]]
STEPS = [[10.001, 10.061], [10.061, 10.081], [10.081, 10.121]]
LINED = [["load-a-0", 10.0], ["load-a-1", 10.07]]
SAID = [["load-a-0", 10.06], ["load-a-0", 10.08], ["load-a-1", 10.12]]
SENT = [["load-a-0", 10.062, 10.07], ["load-a-0", 10.0805, 10.125], ["load-a-1", 10.1255, 10.13]]
TRACE = Trace(runs=RUNS, steps=STEPS, lined=LINED, said=SAID, sent=SENT)


def record(number, scheduled_s, first_s):
    return RequestRecord(
        number=number,
        workload="w",
        scheduled_s=scheduled_s,
        sent_s=scheduled_s,
        ended_s=first_s,
        responses_s=(first_s,),
    )


RECORDS = [record(0, 1.0, 1.1), record(1, 1.08, 1.15)]


@pytest.fixture
def served():
    return served_of(profile(0.01, 0.02), [(TRACE, RECORDS)], 30.0)


def test_steps_take_longer_by_what_they_took_of_what_they_should(served):
    assert served.tokens_per_s == 30.0
    assert np.mean(served.decode_factor) == pytest.approx(2.0)
    assert np.mean(served.prompt_factor) == pytest.approx((3.0 + 2.0) / 2)


def test_a_request_is_on_its_way_while_neither_the_engine_nor_the_sender_has_it(served):
    # The first token came after 100 ms, 69 of them from waking the engine until it was sent; the second's 70 and 60.
    assert sorted({round(one, 4) for one in served.way_s}) == [0.01, 0.031]


def test_who_sends_is_woken_for_a_response_or_goes_on_to_the_next(served):
    assert served.first_response_s == pytest.approx((0.01, 0.045), rel=1e-3)
    assert served.response_s == pytest.approx((0.005,), rel=1e-3)


def test_a_load_begins_with_its_first_request():
    others = Trace(lined=[["count", 9.0], *LINED], steps=[[9.0, 9.1], *STEPS], runs=RUNS, said=SAID, sent=SENT)
    part = during(others, 8.0, 10.09)
    assert part.lined == LINED and part.steps == STEPS[0:3] and part.sent == SENT[:2]


def test_a_server_without_a_trace_is_named(tmp_path):
    with pytest.raises(ServerError, match=r"a trace at .*trace.json"):
        read_trace(tmp_path / "trace.json")
