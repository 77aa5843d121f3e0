"""What every route of the gateway works with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from starlette.requests import Request

from attendant.errors import CancelledError
from attendant.sampling_params import SamplingParams
from clients.answer import Delta
from clients.served_model import ServedModel
from clients.text import StreamingModel
from clients.triton_client import Array
from serving.gateway.answers import TokenUsage
from serving.gateway.budgets import Budget
from serving.gateway.chat_templates import ChatTemplates
from serving.gateway.images import pixels_of
from serving.gateway.large_answers import most_tokens, require_bounded
from serving.gateway.middleware.keys import Key
from serving.gateway.settings import GatewaySettings
from serving.gateway.upstream.pool import Pool
from serving.gateway.upstream.server import Upstream

BYTES_A_TOKEN = 4
"""Of an ordinary text; a tokenizer never makes more tokens of one than it has bytes, but for a few at its ends."""
SPECIAL_TOKENS = 2
Result = TypeVar("Result")
Model = TypeVar("Model", bound=StreamingModel)


@dataclass(slots=True, kw_only=True)
class Gateway:
    """One running gateway.

    Attributes:
        settings: what its user chose.
        pool: the servers.
        decoding: pixels of images that are decoded at once.
        templates: which render chats.
    """

    settings: GatewaySettings
    pool: Pool
    decoding: Budget
    templates: ChatTemplates

    @classmethod
    def of(cls, request: Request) -> Gateway:
        """The gateway that a request came to."""
        gateway: Gateway = request.app.state.gateway
        return gateway

    def stream(
        self, kind: type[Model], name: str, ask: Callable[[Model], AsyncIterator[Delta]]
    ) -> AsyncGenerator[Delta, None]:
        """The answer of a generative model, in deltas as they come; leaving the loop early cancels the request.

        Args:
            kind: the model's client.
            name: of the model.
            ask: from that client to the deltas.

        Raises:
            AttendantError: as the client raises, or no server has such a model.
        """

        def start(upstream: Upstream, served: ServedModel) -> AsyncGenerator[Delta, None]:
            model = kind(upstream.client, served.require_task(kind.task), self.settings.first_timeout_s)
            deltas: AsyncGenerator[Delta, None] = ask(model)  # type: ignore[assignment]
            return deltas

        return self.pool.stream(name, start)

    async def pixels_of(self, data: bytes, model: ServedModel) -> Array:
        """An image as a model wants it.

        Raises:
            InputError: it is none, too large or damaged, or the model prepares no images.
        """
        return await pixels_of(data, model, self.settings, self.decoding)

    def limit_time(self, options: SamplingParams) -> SamplingParams:
        """The same options, within the longest time of a request."""
        most_ms = round(1e3 * self.settings.request_timeout_s)
        return replace(options, deadline_ms=min(options.deadline_ms or most_ms, most_ms))

    def usage(self, request: Request, model: str, question: object) -> TokenUsage:
        """A new count of a request's tokens, which its quota, the metrics and the log read when it is over.

        Args:
            request: that is counted.
            model: that it asks.
            question: what it asks, which only the log of a user who wants that will say.
        """
        usage = TokenUsage(model=model, question=str(question) if self.settings.log_prompts else None)
        request.state.usage = usage
        return usage

    async def require_bounded(self, model: str, prompts: int, options: SamplingParams) -> None:
        """Refuse a request whose answers are too much to be sent as a whole.

        Args:
            model: its name.
            prompts: how many, each of which is answered.
            options: of each answer.

        Raises:
            InputError: they are.
            UnreachableError: no server answers.
        """
        served = (await self.pool.models()).get(model)
        if served is not None:  # that there is none, its stream says
            require_bounded(prompts, options, served.parameters)

    async def reserve_tokens(
        self, request: Request, model: str, prompts: Sequence[str | Sequence[int]], options: SamplingParams | None
    ) -> None:
        """Set aside what a request can take of its key's quota of tokens, if it has one.

        Args:
            request: that is to be answered.
            model: its name.
            prompts: texts or tokens, each of which is answered.
            options: of the answers; none where there are none.

        Raises:
            UnknownNameError: no server has the model.
            RefusedError: so many tokens are not left.
        """
        key: Key | None = getattr(request.state, "key", None)
        if key is None or not key.tokens:
            return
        served = await self.pool.once(model, _describe)
        answers = 0
        if options is not None:
            answers = options.n * most_tokens(options, served.parameters) * max(1, len(prompts))
        likely, most = answers, answers
        for prompt in prompts:
            if isinstance(prompt, str):
                size = len(prompt.encode())
                likely, most = likely + -(-size // BYTES_A_TOKEN), most + size + SPECIAL_TOKENS
            else:
                likely, most = likely + len(prompt), most + len(prompt)
        request.state.reserved = request.state.quotas.reserve(key, likely, most)

    def counts_prompts(self, request: Request) -> bool:
        """Whether the tokens of questions must be counted though the client does not ask: its key has a quota."""
        key: Key | None = getattr(request.state, "key", None)
        return key is not None and bool(key.tokens)


async def while_connected(request: Request, work: Awaitable[Result]) -> Result:
    """The result of some work, which is cancelled as soon as the client disconnects.

    Raises:
        CancelledError: it did.
    """
    track_request = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait({track_request, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not track_request.done():
            raise CancelledError("a client that waits", "it disconnected", "stay connected")
        return track_request.result()
    finally:
        leaving.cancel()
        if not track_request.done():
            track_request.cancel()
            await asyncio.wait({track_request})


async def _describe(upstream: Upstream, served: ServedModel) -> ServedModel:
    return served


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
