"""What routes make of pieces: how many tokens they took, and those of several questions in one stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from clients.answer import Piece


@dataclass(slots=True)
class Tally:
    """How many tokens a request took so far.

    Attributes:
        prompt: of its questions.
        completion: of its answers.
    """

    prompt: int = 0
    completion: int = 0

    def usage(self) -> dict[str, int]:
        """The same as OpenAI says it."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
        }


async def counted(pieces: AsyncGenerator[Piece, None], tally: Tally) -> AsyncGenerator[Piece, None]:
    """The same pieces, counted; of the question, the first one tells."""
    try:
        first = True
        async for piece in pieces:
            if first:
                tally.prompt += piece.input_tokens or 0
                first = False
            tally.completion += len(piece.token_ids)
            yield piece
    finally:
        await pieces.aclose()


async def merged(streams: Sequence[AsyncGenerator[Piece, None]]) -> AsyncGenerator[tuple[int, Piece], None]:
    """The pieces of several answers as they come, each with the number of its answer; an error ends them all."""
    if len(streams) == 1:
        try:
            async for piece in streams[0]:
                yield 0, piece
        finally:
            await streams[0].aclose()
        return
    said: asyncio.Queue[tuple[int, Piece] | BaseException | None] = asyncio.Queue()
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
    stream: AsyncGenerator[Piece, None],
    said: asyncio.Queue[tuple[int, Piece] | BaseException | None],
) -> None:
    try:
        async for piece in stream:
            said.put_nowait((number, piece))
        said.put_nowait(None)
    except Exception as error:
        said.put_nowait(error)
    finally:
        await stream.aclose()
