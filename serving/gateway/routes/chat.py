"""``POST /v1/chat/completions``: go on with a conversation, as OpenAI's API has it."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from uuid import uuid4

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from clients.answer import Answer, Delta, whole_answers
from clients.generate import Generator
from serving.gateway.answers import Tally, counted
from serving.gateway.chat_templates import rendered
from serving.gateway.events import EVENTS, event, event_stream
from serving.gateway.gateway import Gateway, while_connected
from serving.gateway.routes.completions import token_name
from serving.gateway.schemas.base import FAILURES
from serving.gateway.schemas.chat import ChatCompletion, ChatRequest

router = APIRouter(prefix="/v1", tags=["text"], responses=FAILURES)


@router.post("/chat/completions", response_model=None, responses={200: {"model": ChatCompletion, "content": EVENTS}})
async def chat(request: Request, asked: ChatRequest) -> Response:
    """Go on with a conversation."""
    gateway = Gateway.of(request)
    tally = gateway.tally(request, asked.model, asked.messages)
    options = gateway.bounded(
        asked.decoding(
            asked.counts_usage or gateway.counts_prompts(request),
            max_tokens=asked.max_completion_tokens or asked.max_tokens,
            logprobs=bool(asked.logprobs),
            top_logprobs=asked.top_logprobs or 0,
        )
    )
    messages = [message.plain() for message in asked.messages]
    pieces = counted(
        gateway.pieces(Generator, asked.model, lambda model: model.chat(rendered(model.model, messages), options)),
        tally,
    )
    head = {"id": f"chatcmpl-{uuid4().hex}", "created": int(time.time()), "model": asked.model}
    if asked.stream:
        return await event_stream(request, _events(head, pieces, asked, tally))
    choices = await while_connected(request, _choices(pieces))
    return JSONResponse({**head, "object": "chat.completion", "choices": choices, "usage": tally.usage()})


async def _events(
    head: dict[str, Any], pieces: AsyncGenerator[Delta, None], asked: ChatRequest, tally: Tally
) -> AsyncGenerator[bytes, None]:
    head = {**head, "object": "chat.completion.chunk"}
    begun: set[int] = set()
    async with aclosing(pieces):
        async for piece in pieces:
            delta = {"content": piece.text}
            if piece.candidate not in begun:
                begun.add(piece.candidate)
                delta = {"role": "assistant", **delta}
            yield event({**head, "choices": [{**_choice(piece.candidate, piece), "delta": delta}]})
        if asked.counts_usage:
            yield event({**head, "choices": [], "usage": tally.usage()})


async def _choices(pieces: AsyncGenerator[Delta, None]) -> list[dict[str, Any]]:
    async with aclosing(pieces):
        answers = whole_answers([piece async for piece in pieces])
    return [
        {**_choice(index, answer), "message": {"role": "assistant", "content": answer.text}}
        for index, answer in enumerate(answers)
    ]


def _choice(index: int, said: Delta | Answer) -> dict[str, Any]:
    return {
        "index": index,
        "finish_reason": said.finish_reason or None,
        "logprobs": {"content": _tokens(said)} if said.logprobs else None,
    }


def _tokens(said: Delta | Answer) -> list[dict[str, Any]]:
    tops = said.top_logprobs or ((),) * len(said.token_ids)
    return [
        {**_token(token, value), "top_logprobs": [_token(*one) for one in top]}
        for token, value, top in zip(said.token_ids, said.logprobs, tops, strict=True)
    ]


def _token(token: int, value: float) -> dict[str, Any]:
    return {"token": token_name(token), "logprob": value, "bytes": None}
