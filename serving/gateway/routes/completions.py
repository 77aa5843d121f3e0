"""``POST /v1/completions``: continue prompts, as OpenAI's API has it."""

import time
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any
from uuid import uuid4

from fastapi import APIRouter, Request
from starlette.responses import Response

from clients.answer import Answer, Delta, whole_answers
from clients.generate import Generator
from serving.gateway.answers import TokenUsage, count_tokens, merge_streams
from serving.gateway.bodies import JsonRoute
from serving.gateway.events import EVENTS, event, event_stream
from serving.gateway.gateway import Gateway, while_connected
from serving.gateway.large_answers import json_response
from serving.gateway.schemas.base import FAILURES
from serving.gateway.schemas.completions import Completion, CompletionRequest

router = APIRouter(prefix="/v1", tags=["text"], responses=FAILURES, route_class=JsonRoute)


@router.post("/completions", response_model=None, responses={200: {"model": Completion, "content": EVENTS}})
async def complete(request: Request, body: CompletionRequest) -> Response:
    """Continue a prompt, or several."""
    gateway = Gateway.of(request)
    usage = gateway.usage(request, body.model, body.prompt)
    options = gateway.limit_time(
        body.sampling_params(
            body.counts_usage or gateway.counts_prompts(request),
            max_tokens=body.max_tokens,
            echo=body.echo,
            logprobs=body.logprobs is not None,
            top_logprobs=body.logprobs or 0,
        )
    )
    if not body.stream:
        await gateway.require_bounded(body.model, len(body.prompts()), options)
    await gateway.reserve_tokens(request, body.model, body.prompts(), options)
    streams = [
        count_tokens(
            gateway.stream(Generator, body.model, partial(Generator.stream, text=prompt, options=options)), usage
        )
        for prompt in body.prompts()
    ]
    head = {"id": f"cmpl-{uuid4().hex}", "object": "text_completion", "created": int(time.time()), "model": body.model}
    deltas = merge_streams(streams)
    if body.stream:
        return await event_stream(request, _events(head, deltas, body, usage))
    read = await while_connected(request, _read_all(deltas, body))
    return await json_response(
        lambda: {**head, "choices": _choices(read), "usage": usage.to_json()},
        usage.completion * (1 + options.top_logprobs),
    )


async def _events(
    head: dict[str, Any],
    deltas: AsyncGenerator[tuple[int, Delta], None],
    body: CompletionRequest,
    usage: TokenUsage,
) -> AsyncGenerator[bytes, None]:
    answers = body.n or 1
    try:
        async for number, delta in deltas:
            choice = _choice(number * answers + delta.candidate, delta)
            yield event({**head, "choices": [choice]})
        if body.counts_usage:
            yield event({**head, "choices": [], "usage": usage.to_json()})
    finally:
        await deltas.aclose()


async def _read_all(deltas: AsyncGenerator[tuple[int, Delta], None], body: CompletionRequest) -> list[list[Delta]]:
    read: list[list[Delta]] = [[] for _ in body.prompts()]
    async for number, delta in deltas:
        read[number].append(delta)
    return read


def _choices(read: list[list[Delta]]) -> list[dict[str, Any]]:
    answers = [answer for deltas in read for answer in whole_answers(deltas)]
    return [_choice(index, answer) for index, answer in enumerate(answers)]


def _choice(index: int, answer: Delta | Answer) -> dict[str, Any]:
    return {
        "index": index,
        "text": answer.text,
        "finish_reason": answer.finish_reason or None,
        "logprobs": _logprobs(answer) if answer.logprobs else None,
    }


def _logprobs(answer: Delta | Answer) -> dict[str, Any]:
    return {
        "tokens": [token_name(token) for token in answer.token_ids],
        "token_logprobs": list(answer.logprobs),
        "top_logprobs": [{token_name(token): value for token, value in top} for top in answer.top_logprobs] or None,
    }


def token_name(token: int) -> str:
    """How a token is called where only its number is known."""
    return f"token_id:{token}"
