"""Sending goes on beside decoding, and gathers what comes meanwhile."""

from itertools import repeat

import pytest

from attendant.errors import DeadlineError
from serving.capacity.sending import Heard, Sending
from serving.capacity.virtual_clock import VirtualClock
from serving.engine.request_output import RequestOutput

TOKEN = RequestOutput(text="", token_ids=(0,))
LAST = RequestOutput(text="", token_ids=(0,), finish_reason="length", is_last=True)


def parts(response_s=1.0, first_response_s=1.0, stream=True):
    sending = Sending(repeat(first_response_s).__next__, repeat(response_s).__next__, stream)
    return sending, VirtualClock(sending)


def test_work_takes_its_time():
    _, clock = parts()
    clock.work(2.0)
    clock.idle_until(5.0)
    clock.work(1.0)
    assert (clock(), clock.worked_s) == (6.0, 3.0)


def test_work_goes_on_beside_what_is_sent():
    sending, clock = parts()
    heard = Heard(0.0, 1)
    sending.say(heard, TOKEN)
    clock.work(2.0)
    assert clock() == 2.0 and heard.responses_s == [1.0]


def test_the_first_response_wakes_who_sends_and_the_next_ones_follow():
    sending, clock = parts(first_response_s=1.5, response_s=0.5)
    heard = [Heard(0.0, 1) for _ in range(3)]
    clock.work(1.0)
    for one in heard[:2]:
        sending.say(one, TOKEN)
    clock.work(0.1)
    sending.say(heard[2], TOKEN)  # while the others are being sent
    clock.work(9.0)
    assert [one.responses_s[0] for one in heard] == pytest.approx([2.5, 3.0, 3.5])


def test_responses_leave_one_after_the_other_and_what_comes_meanwhile_gathers():
    sending, clock = parts()
    first, second = Heard(0.0, 1), Heard(0.0, 1)
    sending.say(first, TOKEN)
    sending.say(second, TOKEN)
    clock.work(1.5)
    sending.say(first, TOKEN)
    clock.work(0.1)
    sending.say(first, LAST)
    clock.work(3.0)
    assert (first.responses_s, first.tokens, first.is_over) == ([1.0, 3.0], [1, 2], True)
    assert (second.responses_s, second.tokens) == ([2.0], [1])


def test_what_is_still_to_be_sent_at_the_end_is_sent():
    sending, clock = parts()
    first, second = Heard(0.0, 1), Heard(0.0, 1)
    sending.say(first, TOKEN)
    clock.work(0.5)
    sending.say(second, LAST)
    sending.finish(clock())
    assert (first.responses_s, second.responses_s) == ([1.0], [2.0])


def test_a_whole_answer_leaves_with_its_last_token():
    sending, clock = parts(stream=False)
    heard = Heard(0.0, 1)
    sending.say(heard, TOKEN)
    clock.work(5.0)
    sending.say(heard, LAST)
    clock.idle_until(9.0)
    assert (heard.responses_s, heard.tokens) == ([6.0], [2])


def test_an_error_is_a_response():
    sending, clock = parts()
    heard = Heard(0.0, 1)
    sending.say(heard, DeadlineError("a", "b", "c"))
    clock.idle_until(9.0)
    assert heard.error == "DeadlineError" and heard.responses_s == [1.0]
