"""What every route of the gateway works with."""

from __future__ import annotations

import asyncio
import time
import unicodedata
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from starlette.requests import Request

from attendant.errors import BusyError, CancelledError, DeadlineError
from attendant.sampling_params import SamplingParams
from clients.answer import Delta
from clients.served_model import ServedModel
from clients.text import StreamingModel
from clients.triton_client import Array
from serving.gateway.answers import TokenUsage, count_tokens, estimate_tokens, merge_streams
from serving.gateway.budgets import Budget, Budgets, Turns
from serving.gateway.chat_templates import ChatTemplates
from serving.gateway.images import Images
from serving.gateway.large_answers import most_tokens, require_bounded
from serving.gateway.middleware.access import owner_of
from serving.gateway.middleware.keys import Key
from serving.gateway.settings import GatewaySettings
from serving.gateway.upstream.pool import Pool
from serving.gateway.upstream.server import Upstream
from serving.gateway.upstream.unknown_models import require_task

GRACE_S = 1.0
"""Behind the end of a request's time, at which a model that generates ends it itself, and says more of it."""
MOST_CHANGES = 3
"""Of a model while an image for it is decoded."""
SPECIAL_TOKENS = 2
LONGEST_DECOMPOSITION = 11
"""How often a character's bytes are those of its compatibility decomposition, at most: U+FDFA's 3 are 33."""
MOST_DECOMPOSED = 1 << 17
"""Bytes of a prompt whose characters are decomposed to be counted, in some hundredths of a second."""
CLASSIFIED_AT_ONCE, EXPLAINED_AT_ONCE, PREDICTED_AT_ONCE = 64, 4, 64
"""Images for one model: each is of the model's size, however small its file, and an explained one is many."""
MOST_UNREAD_BYTES = 1 << 28
"""Of all answers of tensors that wait for their readers: as much as one message of a server has."""
Result = TypeVar("Result")
Model = TypeVar("Model", bound=StreamingModel)


@dataclass(slots=True)
class SentImage:
    """An image that came with a request.

    Attributes:
        data: the bytes of its file; empty if there is none.
        owner: who sent it.
        made: a model, and what was made of the image for it.
        came_s: when, by the monotonic clock.
    """

    data: bytes
    owner: str
    made: tuple[ServedModel, Array] | None = None
    came_s: float = field(default_factory=time.monotonic)

    def within_its_time(self, options: SamplingParams) -> SamplingParams:
        """Options of the answer, whose time is less by what has passed since it came."""
        if options.deadline_ms is None:
            return options
        passed_ms = round(1e3 * (time.monotonic() - self.came_s))
        return replace(options, deadline_ms=max(1, options.deadline_ms - passed_ms))

    @classmethod
    def of(cls, request: Request, data: bytes) -> SentImage:
        """One that came with this request."""
        return cls(data, owner_of(request.scope))


@dataclass(slots=True, kw_only=True)
class Gateway:
    """One running gateway.

    Attributes:
        settings: what its user chose.
        pool: the servers.
        images: what decodes them.
        templates: which render chats.
        classified: who may have an image classified now, by the name of the model.
        captioned: who may have one decoded that is to be captioned.
        explained: who may have one explained.
        predicted: who may have tensors predicted.
        tensors: bytes of the tensors that are under way, by the name of the model.
        answer_bytes: the most that the outputs of a model had, by its name.
        unread: bytes of answers of tensors whose clients have not read them.
    """

    settings: GatewaySettings
    pool: Pool
    images: Images
    templates: ChatTemplates
    tensors: Budgets
    classified: Turns = field(default_factory=lambda: Turns(CLASSIFIED_AT_ONCE))
    captioned: Turns = field(default_factory=lambda: Turns(CLASSIFIED_AT_ONCE))
    explained: Turns = field(default_factory=lambda: Turns(EXPLAINED_AT_ONCE))
    predicted: Turns = field(default_factory=lambda: Turns(PREDICTED_AT_ONCE))
    answer_bytes: dict[str, int] = field(default_factory=dict)
    unread: Budget = field(default_factory=lambda: Budget(MOST_UNREAD_BYTES))

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
        return self._within_bounds(name, 1, self._start(kind, name, ask))

    def stream_prepared(
        self,
        kind: type[Model],
        name: str,
        prepare: Callable[[ServedModel], Awaitable[Result]],
        ask: Callable[[Model, Result], AsyncIterator[Delta]],
    ) -> AsyncGenerator[Delta, None]:
        """As :meth:`stream`, of a question that is prepared by what the model is.

        Args:
            kind: the model's client.
            name: of the model.
            prepare: from what the server says of the model to what it is asked.
            ask: from that client and what was prepared to the deltas.
        """

        async def start(upstream: Upstream, served: ServedModel) -> AsyncGenerator[Delta, None]:
            now, ready = await self._prepare(upstream, require_task(served, kind.task), prepare)
            model = kind(upstream.client, require_task(now, kind.task), self.settings.first_timeout_s)
            deltas: AsyncGenerator[Delta, None] = ask(model, ready)  # type: ignore[assignment]
            async with aclosing(deltas):
                async for delta in deltas:
                    yield delta

        return self._within_bounds(name, 1, self.pool.stream(name, start))

    def stream_all(
        self,
        kind: type[Model],
        name: str,
        prompts: Sequence[str | Sequence[int]],
        ask: Callable[..., AsyncIterator[Delta]],
        usage: TokenUsage,
    ) -> AsyncGenerator[tuple[int, Delta], None]:
        """The answers to several questions as they come, each delta with the number of its question, and counted.

        No more of them are under way than the model decodes at once, so that others' requests stand behind few.

        Args:
            kind: the model's client.
            name: of the model.
            prompts: texts or tokens.
            ask: from that client and a ``prompt`` to the deltas.
            usage: of the request.

        Raises:
            BusyError: the model does not take so many at once: none is asked.
            AttendantError: as :meth:`stream`.
        """
        streams = [
            count_tokens(self._start(kind, name, partial(ask, prompt=prompt)), usage, prompt) for prompt in prompts
        ]
        return self._within_bounds(name, len(streams), merge_streams(streams, self.pool.rows(name)))

    def _start(
        self, kind: type[Model], name: str, ask: Callable[[Model], AsyncIterator[Delta]]
    ) -> AsyncGenerator[Delta, None]:
        def start(upstream: Upstream, served: ServedModel) -> AsyncGenerator[Delta, None]:
            model = kind(upstream.client, require_task(served, kind.task), self.settings.first_timeout_s)
            deltas: AsyncGenerator[Delta, None] = ask(model)  # type: ignore[assignment]
            return deltas

        return self.pool.stream(name, start)

    async def _within_bounds(
        self, name: str, count: int, deltas: AsyncGenerator[Result, None]
    ) -> AsyncGenerator[Result, None]:
        with self.pool.hold_places(name, count):
            async with aclosing(deltas):
                async for delta in deltas:
                    yield delta

    def stream_of_image(
        self, kind: type[Model], name: str, image: SentImage, ask: Callable[[Model, Array], AsyncIterator[Delta]]
    ) -> AsyncGenerator[Delta, None]:
        """As :meth:`stream`, of an image.

        Args:
            kind: the model's client.
            name: of the model.
            image: that was sent.
            ask: from that client and the image's pixels to the deltas.
        """

        async def deltas() -> AsyncGenerator[Delta, None]:
            async with self.captioned.of(name, image.owner):  # and no place of the model's meanwhile
                await self._decode(image, require_task(await self.pool.model(name), kind.task))
            async with aclosing(self.stream_prepared(kind, name, partial(self._decode, image), ask)) as stream:
                async for delta in stream:
                    yield delta

        return deltas()

    async def prepare_image(
        self, image: SentImage, upstream: Upstream, model: ServedModel
    ) -> tuple[ServedModel, Array]:
        """An image as a model wants it, and what the model is once the image is ready; as :meth:`_prepare`."""
        return await self._prepare(upstream, model, partial(self._decode, image))

    async def _prepare(
        self, upstream: Upstream, model: ServedModel, prepare: Callable[[ServedModel], Awaitable[Result]]
    ) -> tuple[ServedModel, Result]:
        """What a question becomes for a model, and what the model is by then.

        An image may wait for its turn, and a chat for its prompt, while the model is loaded anew from another artefact.

        Args:
            upstream: the server that will be asked.
            model: what it said of the model before.
            prepare: from what the model is to what it is asked.

        Raises:
            BusyError: the model is another one again and again.
            AttendantError: as preparing raises, or of the server.
        """
        for _ in range(MOST_CHANGES):
            ready = await prepare(model)
            before, model = model, await self.pool.current(upstream, model)
            if model == before:
                return model, ready
        raise BusyError(f"one model {model.name!r} for a question", f"{MOST_CHANGES} since it came", "ask again")

    async def _decode(self, image: SentImage, model: ServedModel) -> Array:
        if image.made is None or image.made[0] != model:
            image.made = model, await self.images.pixels(image.data, model, image.owner)
        return image.made[1]

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

    async def require_bounded(
        self, model: str, prompts: Sequence[str | Sequence[int]], options: SamplingParams, logprob_values: int = 1
    ) -> None:
        """Refuse a request whose answers are too much to be sent as a whole.

        Args:
            model: its name.
            prompts: texts or tokens, each of which is answered.
            options: of each answer.
            logprob_values: as how many values each log-probability counts.

        Raises:
            InputError: they are.
            UnreachableError: no server answers.
        """
        served = (await self.pool.models()).get(model)
        if served is not None:  # that there is none, its stream says
            longest = max((most_prompt_tokens(prompt) for prompt in prompts), default=0)
            require_bounded(max(1, len(prompts)), options, served.parameters, longest, logprob_values)

    async def reserve_tokens(
        self, request: Request, model: str, prompts: Sequence[str | Sequence[int]], options: SamplingParams | None
    ) -> None:
        """Set aside what a request can take of its key's quota of tokens, if it has one, in place of what was before.

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
        versions = await self.pool.versions(model)
        answers = 0
        if options is not None:
            longest = max(most_tokens(options, one.parameters) for one in versions)
            answers = options.n * longest * max(1, len(prompts))
        likely, most = answers, answers
        for prompt in prompts:
            likely += estimate_tokens(prompt)
            most += most_prompt_tokens(prompt)
        before = getattr(request.state, "reserved", 0)
        request.state.reserved = request.state.quotas.reserve(key, likely, most, before)

    async def has_token_ids_only(self, model: str) -> bool:
        """Whether a model has no tokenizer, so that prompts and answers are token ids.

        Raises:
            UnreachableError: no server answers.
        """
        served = (await self.pool.models()).get(model)
        return served is not None and served.token_ids_only  # that there is none, its stream says

    def counts_prompts(self, request: Request) -> bool:
        """Whether the tokens of questions must be counted though the client does not ask: its key has a quota."""
        key: Key | None = getattr(request.state, "key", None)
        return key is not None and bool(key.tokens)


def most_prompt_tokens(prompt: str | Sequence[int]) -> int:
    """How many tokens a prompt may be, at most: one a byte, as normalizers of Unicode leave it."""
    if not isinstance(prompt, str):
        return len(prompt)
    size = len(prompt.encode())
    if prompt.isascii():
        return size + SPECIAL_TOKENS
    if size > MOST_DECOMPOSED:
        return LONGEST_DECOMPOSITION * size + SPECIAL_TOKENS
    # One by one: a text as a whole takes the square of how many accents one letter has.
    each = (
        count * len(unicodedata.normalize("NFKD", character).encode()) for character, count in Counter(prompt).items()
    )
    return max(size, sum(each)) + SPECIAL_TOKENS


async def while_connected(request: Request, work: Awaitable[Result]) -> Result:
    """The result of some work, which is cancelled as soon as the client disconnects, or the request's time is over.

    Raises:
        CancelledError: it did.
        DeadlineError: it is.
    """
    longest_s = Gateway.of(request).settings.request_timeout_s
    track_request = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnect(request))
    try:
        waited = {track_request, leaving}
        await asyncio.wait(waited, timeout=longest_s + GRACE_S, return_when=asyncio.FIRST_COMPLETED)
        if not any(one.done() for one in waited):
            raise DeadlineError(f"an answer within {longest_s:g} s", "none", "retry later, or send less at once")
        if not track_request.done():
            raise CancelledError("a client that waits", "it disconnected", "stay connected")
        return track_request.result()
    finally:
        leaving.cancel()
        if not track_request.done():
            track_request.cancel()
            await asyncio.wait({track_request})
        track_request.cancelled() or track_request.exception()  # of which nobody else hears where the client left


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
