"""What every route of the gateway works with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from starlette.requests import Request

from attendant.errors import CancelledError
from attendant.sampling_params import SamplingParams
from clients.answer import Delta
from clients.served_model import ServedModel
from clients.text import StreamingModel
from serving.gateway.answers import Tally
from serving.gateway.middleware.keys import Key
from serving.gateway.settings import GatewaySettings
from serving.gateway.upstream.pool import Pool
from serving.gateway.upstream.server import Upstream

Result = TypeVar("Result")
Model = TypeVar("Model", bound=StreamingModel)


@dataclass(slots=True, kw_only=True)
class Gateway:
    """One running gateway.

    Attributes:
        settings: what its user chose.
        pool: the servers.
    """

    settings: GatewaySettings
    pool: Pool

    @classmethod
    def of(cls, request: Request) -> Gateway:
        """The gateway that a request came to."""
        gateway: Gateway = request.app.state.gateway
        return gateway

    def pieces(
        self, kind: type[Model], name: str, ask: Callable[[Model], AsyncIterator[Delta]]
    ) -> AsyncGenerator[Delta, None]:
        """The answer of a model that writes, in pieces as they come; leaving the loop early takes the request back.

        Args:
            kind: the model's client.
            name: of the model.
            ask: from that client to the pieces.

        Raises:
            AttendantError: as the client raises, or no server has such a model.
        """

        def start(upstream: Upstream, served: ServedModel) -> AsyncGenerator[Delta, None]:
            model = kind(upstream.client, served.require_task(kind.task), self.settings.first_timeout_s)
            pieces: AsyncGenerator[Delta, None] = ask(model)  # type: ignore[assignment]
            return pieces

        return self.pool.stream(name, start)

    def bounded(self, options: SamplingParams) -> SamplingParams:
        """The same options, within the longest time of a request."""
        most_ms = round(1e3 * self.settings.request_timeout_s)
        return replace(options, deadline_ms=min(options.deadline_ms or most_ms, most_ms))

    def tally(self, request: Request, model: str, question: object) -> Tally:
        """A new count of a request's tokens, which its quota, the metrics and the log read when it is over.

        Args:
            request: that is counted.
            model: that it asks.
            question: what it asks, which only the log of a user who wants that will say.
        """
        tally = Tally(model=model, question=str(question) if self.settings.log_prompts else None)
        request.state.tally = tally
        return tally

    def counts_prompts(self, request: Request) -> bool:
        """Whether the tokens of questions must be counted though the client does not ask: its key has a quota."""
        key: Key | None = getattr(request.state, "key", None)
        return key is not None and bool(key.tokens)


async def while_connected(request: Request, work: Awaitable[Result]) -> Result:
    """The result of some work, which is cancelled as soon as the client has gone.

    Raises:
        CancelledError: it has.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise CancelledError("a client that waits", "it has gone", "stay connected")
        return working.result()
    finally:
        leaving.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait({working})


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
