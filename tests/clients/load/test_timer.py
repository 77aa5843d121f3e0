import asyncio
import time

import pytest

from clients.load.timer import Timer


@pytest.fixture(params=[False, True], ids=["kernel", "loop"])
def make(request, monkeypatch):
    """An alarm by the kernel's timer, or, as elsewhere than on Linux, by the event loop's."""
    if request.param:
        monkeypatch.setattr("clients.load.timer.sys.platform", "other")
    return Timer


def test_it_never_rings_before_its_time(make):
    async def rung():
        alarm = make()
        for _ in range(20):
            due_s = time.monotonic() + 0.0013
            await alarm.until(due_s)
            assert time.monotonic() >= due_s - 1e-6
        alarm.close()

    asyncio.run(rung())


def test_a_time_that_has_passed_rings_at_once(make):
    async def rung():
        alarm = make()
        await asyncio.wait_for(alarm.until(time.monotonic() - 5), 60)
        alarm.close()

    asyncio.run(rung())


def test_a_new_time_takes_the_place_of_the_last(make):
    async def rung():
        alarm, first, second = make(), asyncio.Event(), asyncio.Event()
        alarm.at(time.monotonic() + 0.005, first.set)
        alarm.at(time.monotonic() + 0.010, second.set)
        await asyncio.wait_for(second.wait(), 60)
        alarm.close()
        return first.is_set()

    assert not asyncio.run(rung())


def test_a_closed_alarm_rings_no_more(make):
    async def rung():
        alarm, rings = make(), []
        alarm.at(time.monotonic() + 0.005, lambda: rings.append("late"))
        alarm.close()
        await asyncio.sleep(0.03)
        return rings

    assert asyncio.run(rung()) == []
