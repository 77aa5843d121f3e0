"""When the worker that has a request is called dead, and when it is not."""

import asyncio
import time

import pytest

from attendant.engine_health import EngineHealth
from clients.calls import LATE_S, arrives
from clients.silences import Silences


def health(age_s, *unknown):
    return EngineHealth(alive=True, running=1, waiting=0, steps=1, stalled_s=0.0, age_s=age_s, unknown=unknown)


@pytest.fixture
def now(monkeypatch):
    """What the clock shows, in a list."""
    shown = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: shown[0])
    return shown


def test_one_question_is_about_all_streams_that_are_silent(now):
    silences = Silences()
    streams = [silences.begin(name) for name in ("a", "b")]
    now[0] += 0.5
    young = silences.begin("c")
    now[0] += 0.6
    assert silences.take_question() == ["a", "b"]
    assert silences.take_question() == []
    silences.note_answer(["a", "b"], health(1000.0))
    assert not any(one.is_asked for one in (*streams, young))
    assert streams[0].wait_s == streams[1].wait_s > young.wait_s


@pytest.mark.parametrize(("age_s", "fault"), [(0.5, "another one in its place"), (1000.0, "")])
def test_a_worker_that_does_not_know_a_request_took_anothers_place_only_if_it_is_younger(now, age_s, fault):
    silences = Silences()
    silence = silences.begin("a")
    for _ in range(2):
        assert silence.fault == ""
        now[0] += 1.1
        silences.note_answer(silences.take_question(), health(age_s, "a"))
    assert silence.fault == fault


def test_a_question_that_a_stopping_server_refuses_ends_no_request(now):
    silences = Silences()
    streams = [silences.begin(name) for name in ("a", "b")]
    for _ in range(10):
        now[0] += 1.1
        keys = silences.take_question()
        assert keys == ["a", "b"] and all(one.is_asked for one in streams)
        silences.note_refusal(keys, "")
        assert not any(one.is_asked or one.fault for one in streams)


def test_a_question_that_a_server_refuses_and_goes_on_ends_the_requests_that_were_not_heard_of_since(now):
    silences = Silences()
    streams = [silences.begin(name) for name in ("a", "b")]
    now[0] += 1.1
    keys = silences.take_question()
    streams[1].end()
    silences.note_refusal([*keys, "gone"], "no such model")
    assert [one.fault for one in streams] == ["no such model", ""]


def test_the_time_of_a_loop_that_is_late_is_no_silence():
    async def wait():
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        waiting = asyncio.ensure_future(arrives(answer, 0.2))
        await asyncio.sleep(0)
        loop.call_later(0.35 + LATE_S, answer.set_result, None)  # comes while nobody can hear it
        time.sleep(0.3 + LATE_S)
        return await waiting

    assert asyncio.run(wait())


def test_what_does_not_come_in_time_is_late():
    async def wait():
        return await arrives(asyncio.get_running_loop().create_future(), 0.05)

    assert not asyncio.run(wait())
