"""``POST /v1/completions``: continue prompts, as OpenAI's API has it."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any
from uuid import uuid4

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from clients.answer import Answer, Delta, whole_answers
from clients.generate import Generator
from serving.gateway.answers import Tally, counted, merged
from serving.gateway.events import EVENTS, event, event_stream
from serving.gateway.gateway import Gateway, while_connected
from serving.gateway.schemas.base import FAILURES
from serving.gateway.schemas.completions import Completion, CompletionRequest

router = APIRouter(prefix="/v1", tags=["text"], responses=FAILURES)


@router.post("/completions", response_model=None, responses={200: {"model": Completion, "content": EVENTS}})
async def complete(request: Request, asked: CompletionRequest) -> Response:
    """Continue a prompt, or several."""
    gateway = Gateway.of(request)
    tally = gateway.tally(request, asked.model, asked.prompt)
    options = gateway.bounded(
        asked.decoding(
            asked.counts_usage or gateway.counts_prompts(request),
            max_tokens=asked.max_tokens,
            echo=asked.echo,
            logprobs=asked.logprobs is not None,
            top_logprobs=asked.logprobs or 0,
        )
    )
    streams = [
        counted(gateway.pieces(Generator, asked.model, partial(Generator.stream, text=prompt, options=options)), tally)
        for prompt in asked.prompts()
    ]
    head = {"id": f"cmpl-{uuid4().hex}", "object": "text_completion", "created": int(time.time()), "model": asked.model}
    pieces = merged(streams)
    if asked.stream:
        return await event_stream(request, _events(head, pieces, asked, tally))
    choices = await while_connected(request, _choices(pieces, asked))
    return JSONResponse({**head, "choices": choices, "usage": tally.usage()})


async def _events(
    head: dict[str, Any],
    pieces: AsyncGenerator[tuple[int, Delta], None],
    asked: CompletionRequest,
    tally: Tally,
) -> AsyncGenerator[bytes, None]:
    answers = asked.n or 1
    try:
        async for number, piece in pieces:
            choice = _choice(number * answers + piece.candidate, piece)
            yield event({**head, "choices": [choice]})
        if asked.counts_usage:
            yield event({**head, "choices": [], "usage": tally.usage()})
    finally:
        await pieces.aclose()


async def _choices(pieces: AsyncGenerator[tuple[int, Delta], None], asked: CompletionRequest) -> list[dict[str, Any]]:
    said: list[list[Delta]] = [[] for _ in asked.prompts()]
    async for number, piece in pieces:
        said[number].append(piece)
    answers = [answer for one in said for answer in whole_answers(one)]
    return [_choice(index, answer) for index, answer in enumerate(answers)]


def _choice(index: int, said: Delta | Answer) -> dict[str, Any]:
    return {
        "index": index,
        "text": said.text,
        "finish_reason": said.finish_reason or None,
        "logprobs": _logprobs(said) if said.logprobs else None,
    }


def _logprobs(said: Delta | Answer) -> dict[str, Any]:
    return {
        "tokens": [token_name(token) for token in said.token_ids],
        "token_logprobs": list(said.logprobs),
        "top_logprobs": [{token_name(token): value for token, value in top} for top in said.top_logprobs] or None,
    }


def token_name(token: int) -> str:
    """How a token is called where only its number is known."""
    return f"token_id:{token}"
