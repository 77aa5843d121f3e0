"""The Triton servers behind the gateway, of which the one with the fewest requests in flight is chosen.

If it fails before it has begun an answer, the next one is tried.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from typing import TypeVar

from pybreaker import CircuitBreakerError

from attendant.errors import AttendantError, BusyError, LateError, ServerError, UnknownNameError, UnreachableError
from clients.request_context import call_timeout_s
from clients.served_model import ServedModel
from clients.tls import Tls
from serving.gateway.upstream.server import Upstream
from serving.gateway.upstream.unknown_models import unknown_model

_LOG = logging.getLogger("attendant.upstream")
ELSEWHERE = (BusyError, UnknownNameError, UnreachableError)  # another server may answer what one of these refused
FIRST_WAIT_S = 3.5
"""For the answer to one call, where another server has the model: every unary request may be sent again."""
DEFAULT_ROWS = 64
Result = TypeVar("Result")
Ask = Callable[[Upstream, ServedModel], Awaitable[Result]]
Stream = Callable[[Upstream, ServedModel], AsyncGenerator[Result, None]]


class Pool:
    """Use it as an asynchronous context manager: meanwhile every model gets its canaries.

    Attributes:
        upstreams: the servers.
    """

    def __init__(self, addresses: tuple[str, ...], timeout_s: float, probe_s: float, tls: Tls | None = None) -> None:
        """Connect when first asked; in a running event loop.

        Args:
            addresses: of gRPC endpoints.
            timeout_s: longest wait for an answer, and for each response of a stream.
            probe_s: pause between two canaries.
            tls: towards the servers.
        """
        self.upstreams = [Upstream(address, timeout_s, tls) for address in addresses]
        self._probe_s = probe_s
        self._turn = 0
        self._under_way: Counter[str] = Counter()
        self._probing: asyncio.Future[list[None]] | None = None

    async def __aenter__(self) -> Pool:
        self._probing = asyncio.gather(*map(self._probe, self.upstreams))  # each in its own time
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._probing is not None:
            self._probing.cancel()
            with suppress(asyncio.CancelledError):
                await self._probing
        for upstream in self.upstreams:
            await upstream.close()

    async def models(self) -> dict[str, ServedModel]:
        """Every model that a server has, by name.

        Raises:
            UnreachableError: no server answers.
        """
        await self._know_any()
        found = {name: model for upstream in self.upstreams for name, model in upstream.models.items()}
        if not found:
            addresses = ", ".join(upstream.address for upstream in self.upstreams)
            raise UnreachableError(
                f"a Triton server at {addresses}",
                "no answer",
                "start it: `attendant serve`",
                message=f"no Triton server answers at {addresses}; start one: `attendant serve`",
            )
        return dict(sorted(found.items()))

    def knows(self, name: str) -> bool:
        """Whether some server has said that it has a model of that name."""
        return any(name in upstream.models or name in upstream.awaited for upstream in self.upstreams)

    def well(self) -> set[str]:
        """The names of the models that some server answers rightly, as was found out some seconds ago."""
        return {
            name
            for upstream in self.upstreams
            for name, verdict in upstream.verdicts.items()
            if verdict.right and not upstream.is_ejected(name)
        }

    async def model(self, name: str) -> ServedModel:
        """What the server that would be asked first says of a model.

        Raises:
            UnknownNameError: no server has the model.
            AttendantError: what the last server that was tried raised.
        """
        await self._know_any()
        errors: list[AttendantError] = []
        for upstream in self._order(name, self._turn + 1):
            if (model := await self._find_model(upstream, name, errors)) is not None:
                return model
        raise _worst(errors)

    async def versions(self, name: str) -> list[ServedModel]:
        """What each server that has a model says of it now, or said before where it says nothing soon.

        Raises:
            As :meth:`model`.
        """
        known = [(one, one.models[name]) for one in self.upstreams if name in one.models]
        if not known:
            return [await self.model(name)]
        told = await asyncio.gather(*(self.current(*one) for one in known), return_exceptions=True)
        return [now if isinstance(now, ServedModel) else before for now, (_, before) in zip(told, known, strict=True)]

    async def once(self, name: str, ask: Ask[Result]) -> Result:
        """One answer.

        Args:
            name: of the model.
            ask: an upstream and what it says of the model → the answer.

        Raises:
            UnknownNameError: no server has the model.
            AttendantError: what the last server that was tried raised.
        """
        errors: list[AttendantError] = []
        turns = list(self._turns(name))
        for place, (upstream, by_breaker) in enumerate(turns):
            others = (one for one, _ in turns[place + 1 :] if name in one.models)
            has_other = any(not by_breaker or not one.is_ejected(name) for one in others)
            if (model := await self._find_model(upstream, name, errors)) is None:
                continue
            try:
                wait_s = FIRST_WAIT_S if has_other else math.inf
                with upstream.track_request(name, by_breaker), _limit_calls(wait_s):
                    return await ask(upstream, await self.current(upstream, model))
            except CircuitBreakerError:
                errors.append(_ejected(upstream, name))
            except (*ELSEWHERE, LateError) as error:
                errors.append(error)
                if isinstance(error, LateError) and not has_other:
                    break
        raise _worst(errors)

    async def stream(self, name: str, start: Stream[Result]) -> AsyncGenerator[Result, None]:
        """The deltas of an answer as they come; another server is tried only before the first one.

        Args:
            name: of the model.
            start: an upstream and what it says of the model → the deltas.

        Raises:
            As :meth:`once`.
        """
        errors: list[AttendantError] = []
        for upstream, by_breaker in self._turns(name):
            has_begun = False
            if (model := await self._find_model(upstream, name, errors)) is None:
                continue
            try:
                with upstream.track_request(name, by_breaker):
                    async with aclosing(start(upstream, await self.current(upstream, model))) as deltas:
                        async for delta in deltas:
                            has_begun = True
                            yield delta
                    return
            except CircuitBreakerError:
                errors.append(_ejected(upstream, name))
            except ELSEWHERE as error:
                if has_begun:
                    raise
                errors.append(error)
        raise _worst(errors)

    def rows(self, name: str) -> int:
        """How many sequences of a model its servers decode at once, as far as they say so."""
        return sum(one.bound(name, "max_num_seqs") or 0 for one in self.upstreams) or DEFAULT_ROWS

    @contextmanager
    def hold_places(self, name: str, count: int) -> Iterator[None]:
        """While streams are under way to a model: no more than its servers would decode and queue.

        Args:
            name: of the model.
            count: how many streams the request has.

        Raises:
            BusyError: there are too many.
        """
        knows = [one for one in self.upstreams if name in one.models]
        asked = [one for one in knows if not one.is_ejected(name)] or knows
        bounds = [one.bound(name, each) for one in asked for each in ("max_num_seqs", "max_queue_size")]
        numbers = [bound for bound in bounds if bound is not None]
        now, most = self._under_way[name], sum(numbers)
        if numbers and len(numbers) == len(bounds) and now + count > most:
            found, remedy = (
                f"{now} under way and {count} more",
                "retry later" if count <= most else "send fewer at once",
            )
            message = f"queue full: {now} of {most} requests to {name!r} are under way; {count} more: {remedy}"
            raise BusyError(f"at most {most} requests at once to {name!r}", found, remedy, message=message)
        self._under_way[name] += count
        try:
            yield
        finally:
            self._under_way[name] -= count
            if not self._under_way[name]:  # any client may ask for any name
                del self._under_way[name]

    def _turns(self, name: str) -> Iterator[tuple[Upstream, bool]]:
        # Where all that have it are ejected, each is tried all the same: it is no worse than to refuse.
        self._turn += 1
        order = self._order(name, self._turn)
        knows = [upstream for upstream in order if name in upstream.models]
        all_ejected = all(upstream.is_ejected(name) for upstream in knows or order)
        yield from ((upstream, not all_ejected) for upstream in order)

    def _order(self, name: str, turn: int) -> list[Upstream]:
        # Equal loads take turns, and servers not known to have the model come last.
        order = [self.upstreams[(turn + place) % len(self.upstreams)] for place in range(len(self.upstreams))]
        order.sort(key=lambda upstream: (name not in upstream.models, upstream.in_flight))
        return order

    async def _know_any(self) -> None:
        if not any(upstream.models for upstream in self.upstreams):
            await asyncio.gather(*(upstream.probe() for upstream in self.upstreams))

    async def _find_model(self, upstream: Upstream, name: str, errors: list[AttendantError]) -> ServedModel | None:
        # None, and why among the errors, where a server has not the model, or does not say so soon.
        try:
            async with self._soon(upstream, name, LateError):
                return await upstream.model(name)
        except UnknownNameError:
            errors.append(unknown_model(name, {known for one in self.upstreams for known in one.models}))
        except ServerError as error:
            errors.append(error)
        return None

    async def current(self, upstream: Upstream, model: ServedModel) -> ServedModel:
        """What a server says of a model now; see :meth:`serving.gateway.upstream.server.Upstream.current`.

        Raises:
            UnreachableError: it does not say so soon, and another may be asked.
        """
        async with self._soon(upstream, model.name, UnreachableError):
            return await upstream.current(model)

    @asynccontextmanager
    async def _soon(self, upstream: Upstream, name: str, kind: type[ServerError]) -> AsyncIterator[None]:
        # What a server is asked before another may be: soon, or it is an error of this kind.
        try:
            async with asyncio.timeout(FIRST_WAIT_S if len(self.upstreams) > 1 else None):
                yield
        except TimeoutError:
            expected = f"what {upstream.address} says of {name!r} within {FIRST_WAIT_S:g} s"
            raise kind(expected, "nothing", "see `attendant health`") from None

    async def _probe(self, upstream: Upstream) -> None:
        while True:
            try:
                await upstream.probe()
            except Exception as error:  # a mistake of ours: it gets its next canary all the same
                _LOG.error("a look at a server failed", exc_info=error)
            await asyncio.sleep(self._probe_s)


@contextmanager
def _limit_calls(seconds: float) -> Iterator[None]:
    # Of each call: a heavy request has many, and is no sign of a silent server.
    token = call_timeout_s.set(seconds)
    try:
        yield
    finally:
        call_timeout_s.reset(token)


def _ejected(upstream: Upstream, name: str) -> UnreachableError:
    found = "it failed others a moment ago"
    return UnreachableError(f"an answer of {name!r} at {upstream.address}", found, "retry in some seconds")


def _worst(errors: list[AttendantError]) -> AttendantError:
    kinds = (BusyError, UnreachableError, LateError, ServerError)
    worst = max(errors, key=lambda error: [isinstance(error, kind) for kind in kinds])
    errors.clear()  # whose errors hold the frames that hold it: nothing would be freed before the next collection
    return worst
