"""What routes make of deltas: how many tokens they took, and those of several prompts in one stream."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from clients.answer import Delta


@dataclass(slots=True)
class TokenUsage:
    """What is counted of a request.

    Attributes:
        model: its name.
        question: the prompt in words, where it is to be logged.
        prompt: tokens of its prompts, where they are counted.
        completion: tokens of its answers.
        first_s: when its first token came, by ``time.perf_counter``.
    """

    model: str = ""
    question: str | None = None
    prompt: int = 0
    completion: int = 0
    first_s: float | None = None

    @property
    def tokens(self) -> int:
        """Those of prompts and answers together."""
        return self.prompt + self.completion

    def to_json(self) -> dict[str, int]:
        """The same as OpenAI says it."""
        return {"prompt_tokens": self.prompt, "completion_tokens": self.completion, "total_tokens": self.tokens}

    def log_fields(self) -> dict[str, Any]:
        """What the log line holds of it."""
        events: dict[str, Any] = {"model": self.model, "tokens": self.completion}
        return events if self.question is None else {**events, "question": self.question}


async def count_tokens(deltas: AsyncGenerator[Delta, None], usage: TokenUsage) -> AsyncGenerator[Delta, None]:
    """The same deltas, counted; the first one holds the prompt's count."""
    try:
        first = True
        async for delta in deltas:
            if first:
                usage.first_s = usage.first_s or time.perf_counter()
                usage.prompt += delta.input_tokens or 0
                first = False
            usage.completion += len(delta.token_ids)
            yield delta
    finally:
        await deltas.aclose()


async def read_all(deltas: AsyncGenerator[Delta, None]) -> list[Delta]:
    """The deltas of a whole answer."""
    async with aclosing(deltas):
        return [delta async for delta in deltas]


async def merge_streams(streams: Sequence[AsyncGenerator[Delta, None]]) -> AsyncGenerator[tuple[int, Delta], None]:
    """The deltas of several answers as they come, each with the number of its answer; an error ends them all."""
    if len(streams) == 1:
        try:
            async for delta in streams[0]:
                yield 0, delta
        finally:
            await streams[0].aclose()
        return
    events: asyncio.Queue[tuple[int, Delta] | BaseException | None] = asyncio.Queue()
    readers = [asyncio.ensure_future(_forward(number, stream, events)) for number, stream in enumerate(streams)]
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
) -> None:
    try:
        async for delta in stream:
            events.put_nowait((number, delta))
        events.put_nowait(None)
    except Exception as error:
        events.put_nowait(error)
    finally:
        await stream.aclose()
