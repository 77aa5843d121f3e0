"""A run is invalid for each thing that makes its figures not the server's own, and for nothing else."""

from dataclasses import replace

import pytest

from clients.load.analysis.summary import summarize
from clients.load.analysis.validity import Fault, ValidityBounds
from clients.load.record import RequestOutcome, ServerCounts
from tests.clients.load.simulated import records, run_of


def faults(run, bounds=None):
    return {reason.fault for reason in summarize(run, bounds=bounds).validity.reasons}


def told(run):
    return " | ".join(reason.message for reason in summarize(run).validity.reasons)


@pytest.fixture(scope="module")
def calm():
    return records(rate=20, count=600)


@pytest.mark.parametrize("tokens", [0, 8])
def test_a_calm_run_is_valid(tokens):
    validity = summarize(run_of(records(rate=20, count=600, tokens=tokens))).validity
    assert (validity.valid, validity.reasons) == (True, ())


def test_an_error_is_enough(calm):
    broken = [replace(calm[0], outcome=RequestOutcome.ERROR, error="UNAVAILABLE"), *calm[1:]]
    assert faults(run_of(broken)) == {Fault.ANSWERS}
    assert "1 of 600 requests failed; most often (1): UNAVAILABLE" in told(run_of(broken))


def test_a_wrong_answer_is_enough(calm):
    wrong = [*calm[:-1], replace(calm[-1], outcome=RequestOutcome.WRONG, error="7 is not 3")]
    assert faults(run_of(wrong)) == {Fault.ANSWERS}
    assert "answered wrongly; most often (1): 7 is not 3" in told(run_of(wrong))


def test_a_busy_generator_is_the_limit(calm):
    assert faults(run_of(calm, cpu_share=0.95)) == {Fault.GENERATOR}
    assert faults(run_of(calm, cpu_share=0.95), ValidityBounds(cpu_share=1.0)) == set()


def test_an_event_loop_that_wakes_late_is_the_limit(calm):
    assert faults(run_of(calm, lags_s=(0.0,) * 90 + (0.03,) * 10)) == {Fault.GENERATOR}
    assert "woke late: 99th percentile 30 ms, 5 ms allowed" in told(run_of(calm, lags_s=(0.03,) * 10))


def test_requests_that_are_sent_late_are_the_generators_fault():
    assert Fault.GENERATOR in faults(run_of(records(rate=20, count=600, lag_s=0.02)))


def test_what_lag_matters_depends_on_the_latency():
    slow = records(rate=1, count=600, service_s=0.3)
    assert faults(run_of(slow, lags_s=(0.02,) * 50)) == set()


def test_a_cluster_at_500_ms_is_the_batchers_stall(calm):
    stalled = [
        replace(one, ended_s=one.ended_s + 0.5, responses_s=(one.ended_s + 0.5,)) if one.number % 40 == 7 else one
        for one in calm
    ]
    server = ServerCounts(requests=600, failures=0, queue_s=9.0, compute_s=6.0)
    assert faults(run_of(stalled, server=server)) == {Fault.STALL}
    assert "default_queue_policy" in told(run_of(stalled, server=server))


@pytest.mark.parametrize("service_s", [0.5, 0.25])
def test_a_slow_model_is_no_stall(service_s):
    found = records(rate=0.5, count=400, service_s=service_s, jitter=0.9)
    assert Fault.STALL not in faults(run_of(found))


def test_a_client_slower_than_the_server_is_found(calm):
    quick = ServerCounts(requests=600, failures=0, queue_s=0.1, compute_s=0.6)
    assert faults(run_of(calm, server=quick)) == {Fault.CLIENT}
    assert "passed outside the server" in told(run_of(calm, server=quick))


def test_a_streams_time_is_not_compared_with_what_the_server_counts():
    quick = ServerCounts(requests=600, failures=0, queue_s=0.1, compute_s=0.6)
    assert faults(run_of(records(rate=20, count=600, tokens=8), server=quick)) == set()


def test_a_growing_queue_is_no_steady_state():
    assert Fault.UNSTEADY in faults(run_of(records(rate=130, count=800)))


def test_an_empty_run_is_invalid():
    from clients.load.record import GeneratorUsage, LoadRun

    run = LoadRun(
        scenario={},
        records=(),
        generator=GeneratorUsage(cpu_share=0.0),
        server=None,
        duration_s=0.0,
        started_at="2026-11-21T20:00:00+00:00",
        command="",
        environment={},
    )
    assert faults(run) == {Fault.ANSWERS}
    assert "no request was sent" in told(run)


def test_what_one_should_bear_in_mind_is_remarked(calm):
    late = [replace(one, outcome=RequestOutcome.DEADLINE_EXCEEDED) if one.number % 50 == 0 else one for one in calm]
    remarks = " | ".join(summarize(run_of(late, server=None, in_process_s=())).validity.remarks)
    assert "fewer than ten lie beyond p99, p99.9" in remarks
    assert "12 requests passed their deadline: percentiles above p98 are lower bounds" in remarks
    assert "metrics could not be read" in remarks
    assert "overhead of serving is not known" in remarks


def test_too_few_requests_are_no_fault_of_the_server_and_say_how_long_to_run():
    few = run_of(records(rate=2, count=17), warmup_s=0.0)
    assert faults(few) == {Fault.FEW}
    seconds = few.records[-1].sent_s - few.records[0].scheduled_s
    needed_s = int(told(few).rpartition(" ")[2])
    assert told(few).startswith("17 requests are too few: 40 at least; let it run longer: --duration-s")
    assert 40 < needed_s * 17 / seconds < 60


def test_requests_that_were_not_answered_are_not_called_too_few():
    found = records(rate=20, count=60)
    lost = [replace(one, outcome=RequestOutcome.CANCELLED) if one.number % 2 else one for one in found]
    assert faults(run_of(lost)) == {Fault.UNSTEADY}
    assert "30 of 60 requests were answered" in told(run_of(lost))


def test_each_reason_says_what_to_do(calm):
    broken = [replace(calm[0], outcome=RequestOutcome.ERROR, error="gone"), *calm[1:]]
    wrong = [replace(calm[0], outcome=RequestOutcome.WRONG, error="else"), *calm[1:]]
    quick = ServerCounts(requests=600, failures=0, queue_s=0.1, compute_s=0.6)
    runs = [
        *(run_of(broken), run_of(wrong), run_of(calm, cpu_share=1.0), run_of(calm, lags_s=(0.03,) * 10)),
        *(run_of(calm, server=quick), run_of(calm[:10]), run_of(records(rate=130, count=800))),
        run_of(records(rate=20, count=600, lag_s=0.02)),
    ]
    remedies = {}
    for run in runs:
        for reason in summarize(run).validity.reasons:
            remedies[reason.fault] = reason.remedy
            assert reason.message == f"{reason.problem}; {reason.remedy}"
    assert set(remedies) == set(Fault) - {Fault.STALL}  # which has a test of its own
    assert all(len(remedy) > 20 for remedy in remedies.values())


def test_late_requests_on_a_full_machine_name_it(calm):
    run = run_of(calm, lags_s=(0.03,) * 10)
    full = replace(run, generator=replace(run.generator, machine_share=0.99))
    assert "on a machine that was 99% busy; let other programs end" in told(full)
    assert "busy" not in told(run)


def test_a_run_that_was_cut_short_says_so(calm):
    remarks = summarize(replace(run_of(calm), interrupted=True)).validity.remarks
    assert any(remark.startswith("cut short by Ctrl-C after") for remark in remarks)
