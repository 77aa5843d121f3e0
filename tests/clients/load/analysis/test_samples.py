"""Each figure of a request is measured from where its name says to where its name says."""

import numpy as np
import pytest

from clients.load.analysis.samples import gaps, samples
from clients.load.record import RequestOutcome, RequestRecord

STREAM = RequestRecord(
    number=0,
    workload="chat",
    scheduled_s=1.0,
    sent_s=1.5,
    ended_s=4.2,
    responses_s=(2.0, 3.0, 4.0),
    tokens=(2, 1, 3),
    input_tokens=7,
)


def only(record, name):
    (value,) = getattr(samples([record]), name)
    return value


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("time_to_first_token", 0.5),
        ("effective_time_to_first_token", 1.0),
        ("time_to_second_token", 1.0),
        ("inter_token_latency", 2.0 / 4),  # two seconds for the four tokens behind the first response
        ("request_latency", 2.7),
        ("effective_latency", 3.2),
        ("credit_to_start_latency", 0.5),
        ("output_sequence_length", 6),
        ("input_sequence_length", 7),
    ],
)
def test_a_stream_is_measured(name, wanted):
    assert only(STREAM, name) == pytest.approx(wanted)


@pytest.mark.parametrize("name", ["time_to_first_token", "inter_token_latency", "output_sequence_length"])
def test_an_answer_without_tokens_has_no_figure_of_tokens(name):
    unary = RequestRecord(
        number=0, workload="digits", scheduled_s=0, sent_s=0, ended_s=1, responses_s=(1.0,), tokens=(0,)
    )
    assert np.isnan(only(unary, name))


def test_one_token_has_no_time_between_tokens():
    one = RequestRecord(number=0, workload="chat", scheduled_s=0, sent_s=0, ended_s=1, responses_s=(0.9,), tokens=(1,))
    assert np.isnan(only(one, "inter_token_latency"))


def test_a_deadline_exceeded_request_counts_and_a_failed_one_does_not():
    late = RequestRecord(
        number=1, workload="chat", scheduled_s=2, sent_s=2, ended_s=5, outcome=RequestOutcome.DEADLINE_EXCEEDED
    )
    failed = RequestRecord(number=2, workload="chat", scheduled_s=3, sent_s=3, ended_s=9, outcome=RequestOutcome.ERROR)
    gone = RequestRecord(
        number=3, workload="chat", scheduled_s=3, sent_s=3, ended_s=3.1, outcome=RequestOutcome.CANCELLED
    )
    found = samples([failed, late, STREAM, gone])
    assert found.request_latency == pytest.approx([2.7, 3.0])
    assert found.time_to_first_token == pytest.approx([0.5, 3.0])


def test_gaps_are_those_of_every_response():
    assert gaps([STREAM, STREAM]) == pytest.approx([1.0] * 4)
    assert len(gaps([])) == 0
