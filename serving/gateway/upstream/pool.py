"""The Triton servers behind the gateway, of which the one with the fewest requests in flight is chosen.

If it fails before it has begun an answer, the next one is tried.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, suppress
from typing import TypeVar

from pybreaker import CircuitBreakerError

from attendant.errors import AttendantError, BusyError, UnknownNameError, UnreachableError
from clients.served_model import ServedModel
from clients.tls import Tls
from serving.gateway.upstream.server import Upstream

ELSEWHERE = (BusyError, UnknownNameError, UnreachableError)  # another server may answer what one of these refused
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
        self._probing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Pool:
        self._probing = asyncio.ensure_future(self._probe())
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
        if not any(upstream.models for upstream in self.upstreams):
            await asyncio.gather(*(upstream.probe() for upstream in self.upstreams))
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
        for upstream, by_breaker in self._turns(name):
            try:
                with upstream.track_request(name, by_breaker):
                    return await ask(upstream, await upstream.model(name))
            except CircuitBreakerError:
                continue
            except ELSEWHERE as error:
                errors.append(error)
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
            try:
                with upstream.track_request(name, by_breaker):
                    async with aclosing(start(upstream, await upstream.model(name))) as deltas:
                        async for delta in deltas:
                            has_begun = True
                            yield delta
                    return
            except CircuitBreakerError:
                continue
            except ELSEWHERE as error:
                if has_begun:
                    raise
                errors.append(error)
        raise _worst(errors)

    def _turns(self, name: str) -> Iterator[tuple[Upstream, bool]]:
        # Equal loads take turns. Where all are ejected, each is tried all the same: it is no worse than to refuse.
        self._turn += 1
        count = len(self.upstreams)
        order = [self.upstreams[(self._turn + place) % count] for place in range(count)]
        order.sort(key=lambda upstream: upstream.in_flight)
        all_ejected = all(upstream.is_ejected(name) for upstream in order)
        yield from ((upstream, not all_ejected) for upstream in order)

    async def _probe(self) -> None:
        while True:
            await asyncio.gather(*(upstream.probe() for upstream in self.upstreams))
            await asyncio.sleep(self._probe_s)


def _worst(errors: list[AttendantError]) -> AttendantError:
    return max(errors, key=lambda error: [isinstance(error, kind) for kind in (BusyError, UnreachableError)])
