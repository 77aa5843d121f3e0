"""A bounded amount, such as bytes or pixels, that requests share."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar
from weakref import WeakValueDictionary

Result = TypeVar("Result")


class Budget:
    """What is in use of a bounded amount; for one event loop.

    Attributes:
        most: at once.
        used: now.
    """

    def __init__(self, most: int) -> None:
        self.most, self.used = most, 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def take(self, amount: int) -> bool:
        """Take a part at once, unless so much is not left."""
        if self._waiting or self.used + amount > self.most:
            return False
        self.used += amount
        return True

    def give_back(self, amount: int) -> None:
        """Return a part, which those that wait get in the order of their coming."""
        self.used -= amount
        while self._waiting and (self._waiting[0][1].done() or self.used + self._waiting[0][0] <= self.most):
            wanted, turn = self._waiting.popleft()
            if not turn.done():
                self.used += wanted
                turn.set_result(None)

    async def run(self, amount: int, work: Callable[[], Awaitable[Result]]) -> Result:
        """Do some work while a part is taken, once it is there.

        A caller that is cancelled leaves the work to end by itself, as a thread does: until then it keeps its part.

        Args:
            amount: to take; the whole budget where it is more than that.
            work: begins it.
        """
        amount = min(amount, self.most)
        if not self.take(amount):
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append((amount, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():  # its turn came at that moment
                    self.give_back(amount)
                raise
        future = asyncio.ensure_future(work())

        def end(done: asyncio.Future[Result]) -> None:
            self.give_back(amount)
            if not done.cancelled():
                done.exception()  # seen, so that asyncio does not complain where nobody waits any more

        future.add_done_callback(end)
        return await asyncio.shield(future)


class FairTurns:
    """So many at once, of which no owner has all; who has fewest is next. For one event loop."""

    def __init__(self, most: int, each: int) -> None:
        """Nobody has any yet.

        Args:
            most: at once.
            each: of one owner.
        """
        self._free, self._most_each = most, each
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()
        self._had = Counter[Hashable]()

    @asynccontextmanager
    async def turn(self, owner: Hashable) -> AsyncIterator[None]:
        """One of them, once it is its turn."""
        await self._take(owner)
        try:
            yield
        finally:
            self._pass_on(owner)

    async def run(self, owner: Hashable, work: Callable[[], asyncio.Future[Result]]) -> Result:
        """Do some work once it is its turn.

        A caller that is cancelled leaves the work to end by itself, as a process does: until then it keeps its turn.

        Args:
            owner: whose it is.
            work: begins it.
        """
        await self._take(owner)
        try:
            future = work()
        except BaseException:
            self._pass_on(owner)
            raise

        def end(done: asyncio.Future[Result]) -> None:
            self._pass_on(owner)
            if not done.cancelled():
                done.exception()  # seen, so that asyncio does not complain where nobody waits any more

        future.add_done_callback(end)
        return await asyncio.shield(future)

    async def _take(self, owner: Hashable) -> None:
        if self._free and self._had[owner] < self._most_each:
            self._free -= 1
            self._had[owner] += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # its turn came at that moment
                self._pass_on(owner)
            raise

    def _pass_on(self, former: Hashable) -> None:
        self._had[former] -= 1
        if not self._had[former]:
            del self._had[former]
        self._free += 1
        while self._free and self._waiting:
            owner = min(self._waiting, key=lambda one: self._had[one])  # the first to wait, of several
            if self._had[owner] >= self._most_each:
                return
            turns = self._waiting.pop(owner)
            turn = turns.popleft()
            if turns:
                self._waiting[owner] = turns  # behind all others
            if not turn.done():
                self._free -= 1
                self._had[owner] += 1
                turn.set_result(None)


class Turns:
    """So many at once for each name, of one owner three quarters of them; who comes later waits."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._names = WeakValueDictionary[str, FairTurns]()  # of names in use

    def of(self, name: str, owner: Hashable) -> AbstractAsyncContextManager[None]:
        """What to enter before work for a name begins."""
        turns = self._names.setdefault(name, FairTurns(self._most, self._most * 3 // 4 or 1))
        return turns.turn(owner)


class Budgets:
    """One for each name, beside a budget of all."""

    def __init__(self, each: int, most: int) -> None:
        """Nothing is taken yet.

        Args:
            each: of one name.
            most: of all together.
        """
        self._most_each, self._all = each, Budget(most)
        self._each = WeakValueDictionary[str, Budget]()  # of names in use

    async def run(self, name: str, amount: int, work: Callable[[], Awaitable[Result]]) -> Result:
        """Do some work once a name's own part is there, for which its others alone wait, and one of all.

        Args:
            name: whose it is.
            amount: to take of its own budget, and of that of all; the whole of one where it is more than that.
            work: begins it.
        """
        own = self._each.setdefault(name, Budget(self._most_each))
        return await own.run(amount, lambda: self._all.run(amount, work))


class Shares:
    """A budget, of which nobody has all."""

    def __init__(self, most: int, each: int) -> None:
        """Nothing is taken yet.

        Args:
            most: of all together.
            each: of one owner.
        """
        self._all, self._most_each = Budget(most), each
        self._each = WeakValueDictionary[Hashable, Share]()  # of those who have a part

    def of(self, owner: Hashable) -> "Share":
        """The part of one who takes of it."""
        return self._each.setdefault(owner, Share(self._most_each, self._all))


class Share(Budget):
    """What one owner takes of a budget, which the others leave."""

    def __init__(self, most: int, everybodys: Budget) -> None:
        super().__init__(most)
        self._everybodys = everybodys

    def take(self, amount: int) -> bool:
        """Take a part at once, unless so much is not left."""
        if not super().take(amount):
            return False
        if not self._everybodys.take(amount):
            super().give_back(amount)
            return False
        return True

    def give_back(self, amount: int) -> None:
        """Return a part."""
        super().give_back(amount)
        self._everybodys.give_back(amount)
