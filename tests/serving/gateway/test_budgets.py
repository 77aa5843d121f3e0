import asyncio

import pytest

from serving.gateway.budgets import Budget, FairTurns, Shares, Turns


def test_work_waits_for_its_part_in_the_order_of_coming():
    async def measured():
        budget, running, largest, order = Budget(10), 0, 0, []

        async def work(amount):
            nonlocal running, largest
            running += amount
            largest = max(largest, running)
            order.append(amount)
            await asyncio.sleep(0)
            running -= amount

        await asyncio.gather(*(budget.run(amount, lambda one=amount: work(one)) for amount in (6, 5, 4, 1, 10)))
        return budget.used, largest, order

    assert asyncio.run(measured()) == (0, 10, [6, 5, 4, 1, 10])


def test_more_than_the_whole_budget_takes_the_whole():
    async def run():
        budget = Budget(3)
        await budget.run(100, lambda: asyncio.sleep(0))
        return budget.used

    assert asyncio.run(run()) == 0


def test_a_part_is_kept_until_work_that_nobody_waits_for_has_ended():
    async def left():
        budget, end = Budget(1), asyncio.Event()
        first = asyncio.ensure_future(budget.run(1, end.wait))
        second = asyncio.ensure_future(budget.run(1, lambda: asyncio.sleep(0, "done")))
        third = asyncio.ensure_future(budget.run(1, lambda: asyncio.sleep(0, "done")))
        await asyncio.sleep(0)
        for one in (first, second):
            one.cancel()
        await asyncio.wait([first, second])
        assert budget.used == 1 and not third.done()
        end.set()
        return await third, budget.used

    assert asyncio.run(left()) == ("done", 0)


@pytest.mark.parametrize("turn", [True, False])
def test_one_that_leaves_as_its_turn_comes_gives_its_part_on(turn):
    async def left():
        budget = Budget(1)
        assert budget.take(1)
        waiting = asyncio.ensure_future(budget.run(1, lambda: asyncio.sleep(0)))
        await asyncio.sleep(0)
        if turn:
            budget.give_back(1)
        waiting.cancel()
        await asyncio.wait([waiting])
        if not turn:
            budget.give_back(1)
        return budget.used

    assert asyncio.run(left()) == 0


def test_one_owner_leaves_a_part_to_others_and_all_keep_within_the_whole():
    shares = Shares(10, 7)
    one, other = shares.of("one"), shares.of("other")
    assert shares.of("one") is one
    assert one.take(7) and not one.take(1) and other.take(3) and not other.take(1)
    one.give_back(7)
    assert other.take(4) and not other.take(1) and one.take(3)


def order_of(owners, leaving=()):
    """The order in which those that wait for one turn get it, by their owners; some leave while they wait."""

    async def run():
        turns, order = Turns(1), []

        async def one(number, owner):
            async with turns.of("model", owner):
                order.append((number, owner))
                await asyncio.sleep(0)

        async with turns.of("model", "first"):
            waiting = [asyncio.ensure_future(one(*each)) for each in enumerate(owners)]
            await asyncio.sleep(0)
            for number in leaving:
                waiting[number].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return order

    return asyncio.run(run())


def test_of_those_who_wait_owners_take_turns():
    order = order_of("aaaabac")
    assert [owner for _, owner in order] == list("abcaaaa")
    assert [number for number, owner in order if owner == "a"] == [0, 1, 2, 3, 5]


def test_who_leaves_while_it_waits_takes_no_turn():
    assert [owner for _, owner in order_of("aabbc", leaving=(0, 2, 4))] == ["a", "b"]


def test_a_turn_is_kept_until_work_that_nobody_waits_for_has_ended():
    async def left():
        turns, end = FairTurns(1, 1), asyncio.get_running_loop().create_future()
        first = asyncio.ensure_future(turns.run("a", lambda: end))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(turns.run("b", lambda: asyncio.ensure_future(asyncio.sleep(0, "done"))))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        assert not second.done()
        end.set_result(None)
        return await second

    assert asyncio.run(left()) == "done"


@pytest.mark.planted
def test_one_owner_of_many_holds_up_nobody_for_longer_than_one_turn():
    order = order_of("a" * 50 + "b")
    assert order.index((50, "b")) == 1


def test_who_has_fewest_is_next():
    async def run():
        turns, order = FairTurns(2, 2), []

        async def one(owner, held):
            async with turns.turn(owner):
                order.append(owner)
                await held.wait()

        first, rest = asyncio.Event(), asyncio.Event()
        rest.set()
        holding = [asyncio.ensure_future(one("a", held)) for held in (first, asyncio.Event())]
        await asyncio.sleep(0)
        waiting = [asyncio.ensure_future(one(owner, rest)) for owner in "aaab"]
        await asyncio.sleep(0)
        first.set()
        await asyncio.wait(waiting)
        holding[1].cancel()
        return order

    assert asyncio.run(run()) == ["a", "a", "b", "a", "a", "a"]


@pytest.mark.planted
def test_no_owner_has_all_of_them():
    async def run():
        turns, order, held = FairTurns(3, 2), [], asyncio.Event()

        async def one(owner):
            async with turns.turn(owner):
                order.append(owner)
                await held.wait()

        many = [asyncio.ensure_future(one("a")) for _ in range(5)]
        await asyncio.sleep(0)
        other = asyncio.ensure_future(one("b"))
        await asyncio.sleep(0.01)
        at_once = list(order)
        held.set()
        await asyncio.gather(*many, other)
        return at_once, order

    assert asyncio.run(run()) == (["a", "a", "b"], ["a", "a", "b", "a", "a", "a"])
