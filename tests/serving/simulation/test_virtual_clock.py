"""Sending goes on beside decoding, gathers what comes meanwhile, and holds decoding up by its share."""

import pytest

from models.errors import DeadlineError
from serving.generation.answer import Piece
from serving.simulation.sending import Heard, Sending
from serving.simulation.virtual_clock import VirtualClock

TOKEN = Piece(text="", token_ids=(0,))
LAST = Piece(text="", token_ids=(0,), finish_reason="length", is_last=True)


def parts(response_s=1.0, wait=0.5, stream=True):
    sending = Sending(response_s, stream)
    return sending, VirtualClock(sending, wait)


def test_work_takes_its_time_where_nothing_is_sent():
    _, clock = parts()
    clock.work(1.5, 0.5)
    clock.idle_until(5.0)
    clock.work(1.0)
    assert (clock(), clock.worked_s) == (6.0, 3.0)


def test_a_run_goes_on_beside_what_is_sent():
    sending, clock = parts()
    sending.say(Heard(0.0, 1), TOKEN)
    clock.work(2.0, 0.5)
    assert clock() == pytest.approx(2.5)


def test_the_engines_work_waits_for_a_share_of_what_is_still_to_be_sent():
    sending, clock = parts()
    for _ in range(3):
        sending.say(Heard(0.0, 1), TOKEN)
    clock.work(1.0, 0.25)
    assert clock() == pytest.approx(1.0 + 0.5 * (3.0 - 1.0) + 0.25) and clock.worked_s == clock()


def test_responses_leave_one_after_the_other_and_what_comes_meanwhile_gathers():
    sending, clock = parts(wait=0.0)
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


def test_what_is_owed_is_worked_next_and_once():
    _, clock = parts()
    clock.owe(0.5)
    clock.work(1.0)
    clock.work(1.0)
    assert clock() == 2.5
