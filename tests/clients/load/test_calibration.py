"""The generator against a server whose times and faults are known."""

import asyncio
import time

import pytest

from attendant.errors import UnknownNameError, UnreachableError
from attendant.sampling_params import SamplingParams
from clients.load import generator
from clients.load.arrivals import ClosedLoop, Constant
from clients.load.record import RequestOutcome
from clients.load.run import run_load
from clients.load.scenario import Cancel, Expect, Inputs, Scenario, Target, Workload
from clients.load.server_counts import ServerCounter
from tests.clients.load.conftest import STALL_AT, STALL_S, TOKENS

pytestmark = pytest.mark.slow

PROMISED = SamplingParams(max_tokens=TOKENS, ignore_eos=True)
WHOLE = "0 1 2 3 "
SLOW_S = 0.3  # half of the stall
EXACT_S = 1e-6  # what floats leave


def slow(records, since):
    return sum(record.ended_s - getattr(record, since) > SLOW_S for record in records)


def end_of_stall_s(found):
    """No earlier than this the server goes on: it stands still when the tenth request comes, which is sent before."""
    return sorted(record.sent_s for record in found.records)[STALL_AT - 1] + STALL_S


@pytest.mark.planted
@pytest.mark.parametrize(("model", "max_concurrency"), [("stalling-0", 1000), ("stalling-1", 2)])
def test_a_stall_is_seen_by_all_who_meant_to_ask_while_it_lasted(ran, model, max_concurrency):
    found = ran(model, arrivals=Constant(rate=100), requests=100, max_concurrency=max_concurrency)
    over_s = end_of_stall_s(found)
    assert sum(record.ended_s > over_s - EXACT_S for record in found.records) == 100 - (STALL_AT - 1)
    assert slow(found.records, "scheduled_s") >= 100 * (STALL_S - SLOW_S)


def test_who_has_to_wait_for_a_place_is_sent_behind_the_stall_and_counts_from_when_it_was_meant(ran):
    found = ran("stalling-2", arrivals=Constant(rate=100), requests=100, max_concurrency=2)
    behind = [record for record in found.records if record.sent_s > end_of_stall_s(found) - EXACT_S]
    assert len(behind) == 100 - (STALL_AT - 1) - 2  # all but those whom the stall met, and those before it
    assert max(record.sent_s - record.scheduled_s for record in behind) > SLOW_S
    assert slow(found.records, "sent_s") <= 4


def test_a_closed_loop_sees_a_stall_once_a_caller(ran):
    found = ran("stalling-3", arrivals=ClosedLoop(concurrency=1), requests=40)
    assert slow(found.records, "scheduled_s") == 1


def test_an_honest_stream_is_right_and_each_token_has_its_time(ran):
    found = ran("honest", decoding=PROMISED, expect=Expect(kind="text", answers=(WHOLE,)))
    for record in found.records:
        assert (record.outcome, record.tokens) == (RequestOutcome.OK, (1,) * TOKENS)
        assert record.scheduled_s <= record.sent_s <= record.responses_s[0]
        assert list(record.responses_s) == sorted(record.responses_s)
        assert record.responses_s[-1] <= record.ended_s


@pytest.mark.planted
@pytest.mark.parametrize(
    ("model", "outcome", "told"),
    [
        ("few", RequestOutcome.WRONG, "expected 4 tokens; found 3"),
        ("unfinished", RequestOutcome.ERROR, "the stream ended without one"),
        ("text", RequestOutcome.WRONG, "found '0 1 2 3! '"),
    ],
)
def test_a_lie_about_the_last_token_is_caught(ran, model, outcome, told):
    for record in ran(model, decoding=PROMISED, expect=Expect(kind="text", answers=(WHOLE,))).records:
        assert record.outcome is outcome
        assert told in record.error


@pytest.mark.planted
def test_answers_to_the_same_question_must_be_the_same(ran):
    found = ran("quick", expect=Expect(kind="same", tolerance=0.0))  # it answers with the time
    assert [record.outcome for record in found.records] == [
        RequestOutcome.OK,
        RequestOutcome.WRONG,
        RequestOutcome.WRONG,
    ]
    assert "times differs" in found.records[1].error


@pytest.mark.planted
def test_a_generator_that_cannot_keep_up_shows_it(ran):
    found = ran("quick", on_record=lambda record: time.sleep(0.05), arrivals=Constant(rate=50), requests=20)
    assert max(found.generator.loop_lags_s) > 0.03
    assert max(record.sent_s - record.scheduled_s for record in found.records) > 0.1


def test_a_rate_that_nobody_can_keep_is_sent_late_and_answered(ran):
    found = ran("quick", arrivals=Constant(rate=100_000), requests=1000, max_concurrency=32)
    assert [record.outcome for record in found.records] == [RequestOutcome.OK] * 1000
    assert found.records[-1].sent_s - found.records[-1].scheduled_s > 0.03
    assert [record.number for record in found.records] == sorted(record.number for record in found.records)
    assert found.records[0].ended_s < found.records[-1].sent_s


def test_requests_are_taken_back_after_tokens(ran):
    found = ran("slow", arrivals=ClosedLoop(concurrency=2), cancel=Cancel(share=1.0, after_tokens=3))
    assert {record.outcome for record in found.records} == {RequestOutcome.CANCELLED}
    assert all(3 <= sum(record.tokens) < 200 for record in found.records)


def test_requests_are_taken_back_after_a_time(ran):
    found = ran("slow", cancel=Cancel(share=1.0, after_ms=50))
    assert {record.outcome for record in found.records} == {RequestOutcome.CANCELLED}


def test_a_share_is_taken_back_and_the_others_are_answered(ran):
    found = ran("honest", requests=40, cancel=Cancel(share=0.5, after_tokens=1))
    counts = [sum(record.outcome is outcome for record in found.records) for outcome in RequestOutcome]
    assert counts[0] + counts[3] == 40
    assert counts[0] >= 5  # which of the other half is answered before it can be taken back is the server's affair


@pytest.mark.parametrize(("model", "deadline_ms"), [("slow", 20), ("late", 20), ("slow", 0.01)])
def test_an_answer_behind_its_deadline_is_late_even_where_it_passes_while_the_request_is_sent(ran, model, deadline_ms):
    found = ran(model, deadline_ms=deadline_ms)
    assert {record.outcome for record in found.records} == {RequestOutcome.DEADLINE_EXCEEDED}
    assert sum(found.records[0].tokens) < 200


def test_a_server_that_says_nothing_is_given_up_and_the_next_request_sent(ran):
    found = ran("silent", target={"timeout_s": 0.2})
    assert [record.outcome for record in found.records] == [RequestOutcome.ERROR] * 3
    assert "within 0.2 s" in found.records[0].error


def test_an_answer_that_goes_on_for_ever_is_given_up(ran, monkeypatch):
    monkeypatch.setattr(generator, "MOST_TIMEOUTS", 0.1)
    found = ran("slow", target={"timeout_s": 5.0})
    assert [record.outcome for record in found.records] == [RequestOutcome.ERROR] * 3
    assert "a whole answer within 0.5 s" in found.records[0].error and sum(found.records[0].tokens) > 1


def test_a_run_that_is_broken_off_takes_its_requests_back_and_leaves_no_task(known):
    workload = Workload(name="a", model="slow", inputs=Inputs(kind="texts", texts=("a",)))
    scenario = Scenario(workloads=(workload,), target=Target(address=known), arrivals=Constant(rate=50), duration_s=60)

    async def broken_off():
        run = asyncio.create_task(run_load(scenario))
        await asyncio.sleep(0.5)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(broken_off()) == set()


def test_a_run_that_is_cut_short_keeps_what_was_measured(known):
    scenario = Scenario(
        workloads=(Workload(name="a", model="late", inputs=Inputs(kind="zeros")),),
        target=Target(address=known),
        arrivals=ClosedLoop(concurrency=2),
        duration_s=60,
    )

    async def cut_short():
        run = asyncio.create_task(run_load(scenario, keep_interrupted=True))
        await asyncio.sleep(1.2)
        run.cancel()
        return await run, asyncio.all_tasks() - {asyncio.current_task()}

    found, left = asyncio.run(cut_short())
    assert (found.interrupted, left) == (True, set())
    assert 2 <= len(found.records) <= 10
    assert {record.outcome for record in found.records} == {RequestOutcome.OK}


def test_each_request_of_a_closed_loop_is_meant_for_the_end_of_its_predecessor(ran):
    records = ran("quick", requests=20).records
    assert [record.number for record in records] == list(range(20))
    assert [record.scheduled_s for record in records[1:]] == [record.ended_s for record in records[:-1]]


def test_a_run_ends_with_its_duration(ran):
    found = ran("quick", requests=None, duration_s=0.3, warmup_s=0.1, arrivals=ClosedLoop(concurrency=3))
    assert len(found.records) > 10
    assert all(record.scheduled_s < 0.4 for record in found.records)


def test_several_connections_carry_one_run(ran):
    found = ran("quick", requests=30, target={"connections": 3}, arrivals=ClosedLoop(concurrency=6))
    assert [record.outcome for record in found.records] == [RequestOutcome.OK] * 30


def test_a_server_without_shared_memory_is_sent_the_tensors_and_the_run_says_so(ran):
    found = ran("quick", target={"shared_memory": True})
    assert [record.outcome for record in found.records] == [RequestOutcome.OK] * 3
    assert found.environment["shared memory"].startswith("refused, tensors are sent")


def test_a_run_says_what_it_was(ran):
    found = ran("quick")
    assert found.scenario["workloads"][0]["model"] == "quick"
    assert found.server is None
    assert found.environment["cores"].isdigit()
    assert 0 < found.duration_s <= max(record.ended_s for record in found.records)


def test_metrics_that_are_gone_at_the_end_take_no_run_with_them(ran, monkeypatch):
    async def gone(self, expected):
        raise UnreachableError("metrics", "no answer", "correct target.metrics")

    monkeypatch.setattr(ServerCounter, "stop", gone)
    found = ran("quick")
    assert len(found.records) == 3 and found.server is None and "no answer" in found.environment["metrics"]


def test_an_unknown_model_is_refused_before_anything_is_sent(ran):
    with pytest.raises(UnknownNameError, match="unheard"):
        ran("unheard")


def test_an_address_without_a_server_is_refused(known):
    workload = Workload(name="a", model="a", inputs=Inputs(kind="zeros"))
    target = Target(address="127.0.0.1:1", timeout_s=5.0)
    with pytest.raises(UnreachableError):
        asyncio.run(run_load(Scenario(workloads=(workload,), target=target, requests=1)))
