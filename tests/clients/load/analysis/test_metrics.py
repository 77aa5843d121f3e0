"""Figures of runs whose truth is known."""

from dataclasses import replace

import numpy as np
import pytest

from clients.load.analysis.metrics import metrics
from clients.load.analysis.slo import parse_objectives
from clients.load.analysis.steady import SteadyWindow
from clients.load.record import RequestOutcome, RequestRecord, ServerCounts
from tests.clients.load.simulated import records, run_of


@pytest.fixture(scope="module")
def steps():
    """Ten requests a second for ten seconds; the n-th takes n ms and brings 5 tokens, each from the fifth part on."""
    return [
        RequestRecord(
            number=n,
            workload="chat",
            scheduled_s=n / 10,
            sent_s=n / 10 + 0.001,
            ended_s=n / 10 + 0.001 + (n + 1) / 1000,
            responses_s=tuple(n / 10 + 0.001 + (n + 1) / 1000 * part / 5 for part in range(1, 6)),
            tokens=(1,) * 5,
            input_tokens=3,
        )
        for n in range(100)
    ]


WHOLE = SteadyWindow(begins_s=0.0, ends_s=10.0)


def test_latencies_rates_and_counts_are_those_of_the_window(steps):
    found = metrics(run_of(steps), WHOLE)
    assert found["request_latency"].value("p50") == pytest.approx(0.0505)
    assert found["request_latency"].value("max") == pytest.approx(0.100)
    assert found["effective_latency"].avg - found["request_latency"].avg == pytest.approx(0.001)
    assert found["inter_token_latency"].value("max") == pytest.approx(0.02)
    assert found["request_throughput"].avg == pytest.approx(9.9)  # the last one ends behind the window
    assert found["request_count"].avg == 100
    assert found["output_sequence_length"].avg == 5
    assert found["benchmark_duration"].avg == 10.0


def test_requests_outside_the_window_are_in_no_latency(steps):
    found = metrics(run_of(steps), SteadyWindow(begins_s=5.0, ends_s=10.0))
    assert found["request_latency"].value("min") == pytest.approx(0.051)
    assert found["request_throughput"].avg == pytest.approx(9.8, abs=0.21)


def test_goodput_counts_requests_that_keep_every_objective(steps):
    found = metrics(run_of(steps), WHOLE, parse_objectives("latency_p95<51.5ms,itl_avg<1s"))
    assert found["goodput"].avg == pytest.approx(5.0)
    assert "goodput" not in metrics(run_of(steps), WHOLE)


def test_tokens_are_counted_when_they_came_not_when_their_answer_ended():
    slow = RequestRecord(
        number=0, workload="chat", scheduled_s=0, sent_s=0, ended_s=30.0, responses_s=(1.0, 2.0, 29.0), tokens=(1, 1, 9)
    )
    assert metrics(run_of([slow]), WHOLE)["output_token_throughput"].avg == pytest.approx(0.2)


def test_cancelled_answers_count_for_tokens_and_not_for_latency(steps):
    some = [replace(one, outcome=RequestOutcome.CANCELLED) if one.number % 2 else one for one in steps]
    found = metrics(run_of(some), WHOLE)
    assert found["request_latency"].distribution.count == 50
    assert found["cancelled_request_count"].avg == 50
    assert found["output_token_throughput"].avg == pytest.approx(
        metrics(run_of(steps), WHOLE)["output_token_throughput"].avg
    )


def test_images_are_counted():
    found = metrics(run_of(records(rate=20, count=200)), WHOLE)
    assert found["image_throughput"].avg == found["request_throughput"].avg
    assert "output_token_throughput" not in found
    assert "time_to_first_token" not in found


def test_queue_and_compute_are_the_servers(steps):
    server = ServerCounts(requests=50, failures=0, queue_s=1.0, compute_s=2.0)
    found = metrics(run_of(steps, server=server), WHOLE)
    assert (found["queue_time"].avg, found["compute_time"].avg) == (0.02, 0.04)
    assert "queue_time" not in metrics(run_of(steps, server=None), WHOLE)


def test_what_serving_adds_is_the_difference_of_medians(steps):
    found = metrics(run_of(steps, in_process_s=(0.01, 0.02, 0.9)), WHOLE)
    assert found["serving_overhead"].avg == pytest.approx(0.0505 - 0.02, abs=1e-4)
    assert "serving_overhead" not in metrics(run_of(steps, in_process_s=()), WHOLE)


def test_the_interval_of_a_rate_holds_the_rate_that_was_offered():
    held = 0
    for seed in range(20):
        low, high = metrics(run_of(records(rate=50, count=1000, seed=seed)), SteadyWindow(begins_s=0.0, ends_s=19.0))[
            "request_throughput"
        ].intervals["avg"]
        held += low <= 50 <= high
    assert held >= 16


def test_intervals_are_stated_of_every_latency_with_an_objective(steps):
    found = metrics(run_of(steps), WHOLE, parse_objectives("ttst_p95<1s"))
    assert "p95" in found["time_to_second_token"].intervals
    assert found["inter_chunk_latency"].intervals == {}
    assert np.isfinite(found["effective_latency"].intervals["p99"]).all()
