"""What routes make of pieces: how many tokens they took, and those of several questions in one stream."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any

from clients.answer import Delta


@dataclass(slots=True)
class Tally:
    """What is counted of a request.

    Attributes:
        model: that was asked.
        question: in words, where the log is to say it.
        prompt: tokens of its questions, where they are counted.
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
        """Those of questions and answers together."""
        return self.prompt + self.completion

    def usage(self) -> dict[str, int]:
        """The same as OpenAI says it."""
        return {"prompt_tokens": self.prompt, "completion_tokens": self.completion, "total_tokens": self.tokens}

    def told(self) -> dict[str, Any]:
        """What the log says of it."""
        said: dict[str, Any] = {"model": self.model, "tokens": self.completion}
        return said if self.question is None else {**said, "question": self.question}


async def counted(pieces: AsyncGenerator[Delta, None], tally: Tally) -> AsyncGenerator[Delta, None]:
    """The same pieces, counted; of the question, the first one tells."""
    try:
        first = True
        async for piece in pieces:
            if first:
                tally.first_s = tally.first_s or time.perf_counter()
                tally.prompt += piece.input_tokens or 0
                first = False
            tally.completion += len(piece.token_ids)
            yield piece
    finally:
        await pieces.aclose()


async def merged(streams: Sequence[AsyncGenerator[Delta, None]]) -> AsyncGenerator[tuple[int, Delta], None]:
    """The pieces of several answers as they come, each with the number of its answer; an error ends them all."""
    if len(streams) == 1:
        try:
            async for piece in streams[0]:
                yield 0, piece
        finally:
            await streams[0].aclose()
        return
    said: asyncio.Queue[tuple[int, Delta] | BaseException | None] = asyncio.Queue()
    readers = [asyncio.ensure_future(_read(number, stream, said)) for number, stream in enumerate(streams)]
    try:
        left = len(readers)
        while left:
            one = await said.get()
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


async def _read(
    number: int,
    stream: AsyncGenerator[Delta, None],
    said: asyncio.Queue[tuple[int, Delta] | BaseException | None],
) -> None:
    try:
        async for piece in stream:
            said.put_nowait((number, piece))
        said.put_nowait(None)
    except Exception as error:
        said.put_nowait(error)
    finally:
        await stream.aclose()
