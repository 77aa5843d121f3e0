"""What routes make of deltas: how many tokens they took, and those of several prompts in one stream."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from attendant.errors import DeadlineError, ServerError
from clients.answer import Delta

BYTES_A_TOKEN = 4
"""Of an ordinary text."""
MOST_KEPT_BYTES = 1 << 27
"""Of the answers to one request that are not streamed: what they ask for is less."""
VALUE_BYTES = 64


@dataclass(slots=True)
class TokenUsage:
    """What is counted of a request.

    Attributes:
        model: its name.
        question: the prompt in words, where it is to be logged.
        prompt: tokens of its prompts, where they are counted.
        cached: how many of them prefix caches held; None where no server says so.
        completion: tokens of its answers.
        unanswered: about how many of prompts whose answers were given up before their first token.
        first_s: when its first token came, by ``time.perf_counter``.
    """

    model: str = ""
    question: str | None = None
    prompt: int = 0
    cached: int | None = None
    completion: int = 0
    unanswered: int = 0
    first_s: float | None = None

    @property
    def tokens(self) -> int:
        """Those of prompts and answers together."""
        return self.prompt + self.completion

    def to_json(self) -> dict[str, Any]:
        """The same as OpenAI says it."""
        counts = {"prompt_tokens": self.prompt, "completion_tokens": self.completion, "total_tokens": self.tokens}
        return counts if self.cached is None else {**counts, "prompt_tokens_details": {"cached_tokens": self.cached}}

    def log_fields(self) -> dict[str, Any]:
        """What the log line holds of it."""
        events: dict[str, Any] = {"model": self.model, "tokens": self.completion}
        return events if self.question is None else {**events, "question": self.question}


def estimate_tokens(prompt: str | Sequence[int]) -> int:
    """About how many tokens a prompt has."""
    return -(-len(prompt.encode()) // BYTES_A_TOKEN) if isinstance(prompt, str) else len(prompt)


async def count_tokens(
    deltas: AsyncGenerator[Delta, None], usage: TokenUsage, prompt: str | Sequence[int] = ""
) -> AsyncGenerator[Delta, None]:
    """The same deltas, counted; the first one holds the prompt's count, which is estimated where none comes in time."""
    first = True
    try:
        async for delta in deltas:
            if first:
                usage.first_s = usage.first_s or time.perf_counter()
                usage.prompt += delta.input_tokens or 0
                if delta.cached_tokens is not None:
                    usage.cached = (usage.cached or 0) + delta.cached_tokens
                first = False
            usage.completion += len(delta.token_ids) - delta.prompt_tokens
            yield delta
    except (asyncio.CancelledError, DeadlineError):
        if first:
            usage.unanswered += estimate_tokens(prompt)
        raise
    finally:
        await deltas.aclose()


async def read_all(deltas: AsyncGenerator[Delta, None]) -> list[Delta]:
    """The deltas of a whole answer.

    Raises:
        ServerError: they are more than anybody asked for.
    """
    return [delta for _, delta in await read_answers(merge_streams([deltas], 1))]


async def read_answers(deltas: AsyncGenerator[tuple[int, Delta], None]) -> list[tuple[int, Delta]]:
    """The deltas of several whole answers, each with the number of its answer.

    Raises:
        ServerError: they are more than anybody asked for.
    """
    read, size = [], 0
    async with aclosing(deltas):
        async for number, delta in deltas:
            size += _size(delta)
            if size > MOST_KEPT_BYTES:
                raise ServerError(f"answers of at most {MOST_KEPT_BYTES} bytes", "more", "look at the server's log")
            read.append((number, delta))
    return read


def _size(delta: Delta) -> int:
    alignment = 0 if delta.alignment is None else delta.alignment.nbytes
    texts = sum(map(len, (delta.text, *delta.token_texts, *delta.source_texts, *delta.token_bytes)))
    texts += sum(len(one) for top in delta.top_bytes for one in top)
    values = len(delta.token_ids) + sum(map(len, delta.top_logprobs))
    return alignment + texts + VALUE_BYTES * (1 + values)


async def merge_streams(
    streams: Sequence[AsyncGenerator[Delta, None]], at_once: int
) -> AsyncGenerator[tuple[int, Delta], None]:
    """The deltas of several answers as they come, each with the number of its answer; an error ends them all.

    Args:
        streams: of the answers.
        at_once: how many are under way at most.
    """
    if len(streams) == 1:
        try:
            async for delta in streams[0]:
                yield 0, delta
        finally:
            await streams[0].aclose()
        return
    events: asyncio.Queue[tuple[int, Delta] | BaseException | None] = asyncio.Queue()
    turns = asyncio.Semaphore(at_once)
    readers = [asyncio.ensure_future(_forward(number, stream, events, turns)) for number, stream in enumerate(streams)]
    try:
        left = len(readers)
        while left:
            one = await events.get()
            if isinstance(one, BaseException):
                raise one
            if one is None:
                left -= 1
            else:
                yield one
    finally:
        for reader in readers:
            reader.cancel()
        await asyncio.wait(readers)


async def _forward(
    number: int,
    stream: AsyncGenerator[Delta, None],
    events: asyncio.Queue[tuple[int, Delta] | BaseException | None],
    turns: asyncio.Semaphore,
) -> None:
    try:
        async with turns:
            async for delta in stream:
                events.put_nowait((number, delta))
        events.put_nowait(None)
    except Exception as error:
        events.put_nowait(error)
    finally:
        await stream.aclose()
