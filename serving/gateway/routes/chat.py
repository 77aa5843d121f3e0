"""``POST /v1/chat/completions``: go on with a conversation, as OpenAI's API has it."""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from uuid import uuid4

from fastapi import APIRouter, Request
from starlette.responses import Response

from clients.answer import Answer, Delta, whole_answers
from clients.generate import Generator
from serving.gateway.answers import TokenUsage, count_tokens, read_all
from serving.gateway.bodies import JsonRoute
from serving.gateway.events import EVENTS, event, event_stream
from serving.gateway.gateway import Gateway, while_connected
from serving.gateway.large_answers import json_response
from serving.gateway.routes.completions import token_name
from serving.gateway.schemas.base import FAILURES
from serving.gateway.schemas.chat import ChatCompletion, ChatRequest

ROLE = "<|assistant|>\n"
"""What a template writes around each message is about as long."""
router = APIRouter(prefix="/v1", tags=["text"], responses=FAILURES, route_class=JsonRoute)


@router.post("/chat/completions", response_model=None, responses={200: {"model": ChatCompletion, "content": EVENTS}})
async def chat(request: Request, body: ChatRequest) -> Response:
    """Go on with a conversation."""
    gateway = Gateway.of(request)
    usage = gateway.usage(request, body.model, body.messages)
    options = gateway.limit_time(
        body.sampling_params(
            body.counts_usage or gateway.counts_prompts(request),
            max_tokens=body.max_completion_tokens or body.max_tokens,
            logprobs=bool(body.logprobs),
            top_logprobs=body.top_logprobs or 0,
        )
    )
    if not body.stream:
        await gateway.require_bounded(body.model, 1, options)
    messages = [message.plain() for message in body.messages]
    text = "".join(message["content"] + ROLE for message in messages)
    await gateway.reserve_tokens(request, body.model, [text], options)

    async def ask(model: Generator) -> AsyncGenerator[Delta, None]:
        prompt = await gateway.templates.render(model.model, messages)
        async for delta in model.chat(prompt, options):
            yield delta

    deltas = count_tokens(gateway.stream(Generator, body.model, ask), usage)
    head = {"id": f"chatcmpl-{uuid4().hex}", "created": int(time.time()), "model": body.model}
    if body.stream:
        return await event_stream(request, _events(head, deltas, body, usage))
    read = await while_connected(request, read_all(deltas))
    return await json_response(
        lambda: {**head, "object": "chat.completion", "choices": _choices(read), "usage": usage.to_json()},
        usage.completion * (1 + options.top_logprobs),
    )


async def _events(
    head: dict[str, Any], deltas: AsyncGenerator[Delta, None], body: ChatRequest, usage: TokenUsage
) -> AsyncGenerator[bytes, None]:
    head = {**head, "object": "chat.completion.chunk"}
    begun: set[int] = set()
    async with aclosing(deltas):
        async for delta in deltas:
            message = {"content": delta.text}
            if delta.candidate not in begun:
                begun.add(delta.candidate)
                message = {"role": "assistant", **message}
            yield event({**head, "choices": [{**_choice(delta.candidate, delta), "delta": message}]})
        if body.counts_usage:
            yield event({**head, "choices": [], "usage": usage.to_json()})


def _choices(deltas: list[Delta]) -> list[dict[str, Any]]:
    return [
        {**_choice(index, answer), "message": {"role": "assistant", "content": answer.text}}
        for index, answer in enumerate(whole_answers(deltas))
    ]


def _choice(index: int, answer: Delta | Answer) -> dict[str, Any]:
    return {
        "index": index,
        "finish_reason": answer.finish_reason or None,
        "logprobs": {"content": _tokens(answer)} if answer.logprobs else None,
    }


def _tokens(answer: Delta | Answer) -> list[dict[str, Any]]:
    tops = answer.top_logprobs or ((),) * len(answer.token_ids)
    return [
        {**_token(token, value), "top_logprobs": [_token(*one) for one in top]}
        for token, value, top in zip(answer.token_ids, answer.logprobs, tops, strict=True)
    ]


def _token(token: int, value: float) -> dict[str, Any]:
    return {"token": token_name(token), "logprob": value, "bytes": None}
