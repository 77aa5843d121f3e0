"""What ``/v1/translate`` and ``/v1/caption`` have in common: pieces as events, or whole answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import Request
from starlette.responses import JSONResponse, Response

from clients.answer import Answer, Delta, whole_answers
from serving.gateway.answers import Tally, counted
from serving.gateway.events import event, event_stream
from serving.gateway.explain.maps import rounded
from serving.gateway.gateway import while_connected


async def written(request: Request, tally: Tally, pieces: AsyncGenerator[Delta, None], stream: bool) -> Response:
    """The response that pieces make.

    Args:
        request: whose client may go.
        tally: of the request, with the model's name.
        pieces: of one or more answers.
        stream: whether they are sent as they come.
    """
    if stream:
        return await event_stream(request, _events(counted(pieces, tally), tally))
    answers = whole_answers(await while_connected(request, _all(counted(pieces, tally))))
    said = [told(index, answer) for index, answer in enumerate(answers)]
    return JSONResponse({"model": tally.model, "answers": said, "usage": tally.usage()})


def told(index: int, said: Delta | Answer) -> dict[str, Any]:
    """A piece or an answer as JSON, see :class:`serving.gateway.schemas.native.NativeAnswer`."""
    value: dict[str, Any] = {
        "index": index,
        "text": said.text,
        "finish_reason": said.finish_reason or None,
        "token_ids": list(said.token_ids),
    }
    if said.logprobs:
        value["logprobs"] = list(said.logprobs)
    if said.top_logprobs:
        value["top_logprobs"] = [
            [{"token_id": token, "logprob": logprob} for token, logprob in top] for top in said.top_logprobs
        ]
    if said.score is not None:
        value["score"] = said.score
    if said.alignment is not None:
        value |= {"alignment": rounded(said.alignment), "tokens": list(said.token_texts)}
    if said.source_texts:
        value["source"] = list(said.source_texts)
    return value


async def _events(pieces: AsyncGenerator[Delta, None], tally: Tally) -> AsyncGenerator[bytes, None]:
    async with aclosing(pieces):
        async for piece in pieces:
            yield event(told(piece.candidate, piece))
        yield event({"model": tally.model, "text": "", "usage": tally.usage()})


async def _all(pieces: AsyncGenerator[Delta, None]) -> list[Delta]:
    async with aclosing(pieces):
        return [piece async for piece in pieces]
