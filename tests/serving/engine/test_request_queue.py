"""A line of two priorities, bounded, that several threads join."""

import threading

import pytest

from attendant.errors import BusyError
from serving.engine.scheduler import RequestQueue
from tests.serving.engine.sample_sequences import request_of


def line_of(*priorities, max_size=99):
    line = RequestQueue(max_size)
    requests = [request_of(priority=priority) for priority in priorities]
    for one in requests:
        line.put(one)
    return line, requests


def test_turns_are_by_priority_and_then_by_arrival():
    line, (a, b, c, d) = line_of(1, 0, 1, 0)
    assert line.front(9) == [b, d, a, c] and line.front(2) == [b, d]
    turns = []
    while (first := line.first()) is not None:
        line.remove(first)
        turns.append(first)
    assert turns == [b, d, a, c] and len(line) == 0


def test_one_more_than_may_wait_is_refused_and_the_others_wait_on():
    line, requests = line_of(0, 1, max_size=2)
    with pytest.raises(BusyError, match="queue full: 2 requests waiting; retry later"):
        line.put(request_of(priority=0))
    assert line.front(9) == requests
    line.remove(requests[0])
    line.put(requests[0])
    assert len(line) == 2


def test_who_leaves_is_taken_out_and_nobody_else():
    line, (a, b, c, d) = line_of(1, 0, 1, 0)
    for one in (a, d):
        one.cancel()
    assert line.remove_if(lambda one: one.is_cancelled) == [d, a]
    assert line.front(9) == [b, c]
    assert line.remove_if(lambda one: one.is_cancelled) == []


def waiting_in_a_thread(line):
    thread = threading.Thread(target=line.wait, args=(60.0,), daemon=True)
    thread.start()
    return thread


def test_a_wait_ends_when_somebody_comes():
    line = RequestQueue(9)
    thread = waiting_in_a_thread(line)
    line.put(request_of())
    thread.join(10)
    assert not thread.is_alive()


def test_a_wait_ends_when_it_is_woken():
    line = RequestQueue(9)
    thread = waiting_in_a_thread(line)
    while thread.is_alive():  # it may not have begun to wait
        line.wake()
        thread.join(0.01)
    assert len(line) == 0


def test_nobody_waits_for_who_is_there_already():
    line, _ = line_of(1)
    line.wait(3600.0)


def test_threads_that_come_at_once_are_never_more_than_may_wait():
    line, refused = RequestQueue(50), []

    def come():
        for _ in range(25):
            try:
                line.put(request_of())
            except BusyError:
                refused.append(1)

    threads = [threading.Thread(target=come) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(line), len(refused)) == (50, 50)


def test_only_a_request_whose_deadline_has_passed_is_late():
    without, soon = request_of(), request_of(deadline_ms=60_000)
    assert soon.deadline_s == soon.arrived_s + 60
    assert not without.is_past_deadline(without.arrived_s + 1e9)
    assert [soon.is_past_deadline(soon.arrived_s + after) for after in (0, 59, 61)] == [False, False, True]
