"""``POST /v1/completions``: continue prompts, as OpenAI's API has it."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from fastapi import APIRouter, Request
from starlette.responses import Response

from clients.answer import Answer, Delta, whole_answers
from clients.generate import Generator
from serving.gateway.answers import TokenUsage, read_answers
from serving.gateway.bodies import JsonRoute
from serving.gateway.events import EVENTS, event, event_stream
from serving.gateway.gateway import Gateway, while_connected
from serving.gateway.generation import alignment_to_json
from serving.gateway.large_answers import json_response
from serving.gateway.logprobs import completion_logprobs, count_values
from serving.gateway.schemas.base import FAILURES
from serving.gateway.schemas.completions import Completion, CompletionRequest

router = APIRouter(prefix="/v1", tags=["text"], responses=FAILURES, route_class=JsonRoute)


@dataclass(slots=True, kw_only=True)
class Shown:
    """What choices show beside their texts."""

    token_ids: bool


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
            parse_special=body.parse_special,
            logprobs=body.logprobs is not None,
            top_logprobs=body.logprobs or 0,
            explain=body.explain,
        )
    )
    if not body.stream:
        await gateway.require_bounded(body.model, body.prompts(), options)
    await gateway.reserve_tokens(request, body.model, body.prompts(), options)
    shown, began_s = Shown(token_ids=body.return_token_ids), time.monotonic()

    def ask(model: Generator, prompt: str | Sequence[int]) -> AsyncIterator[Delta]:
        shown.token_ids |= model.model.token_ids_only  # by what the one is that answers
        passed_ms = round(1e3 * (time.monotonic() - began_s))  # while the prompts before it were answered
        return model.stream(prompt, replace(options, deadline_ms=max(1, (options.deadline_ms or 1) - passed_ms)))

    deltas = gateway.stream_all(Generator, body.model, body.prompts(), ask, usage)
    head = {"id": f"cmpl-{uuid4().hex}", "object": "text_completion", "created": int(time.time()), "model": body.model}
    if body.stream:
        return await event_stream(request, _events(head, deltas, body, usage, shown))
    read = await while_connected(request, _read_all(deltas, body))
    return await json_response(
        lambda: {**head, "choices": _choices(read, body, shown), "usage": usage.to_json()},
        sum(map(count_values, read)),
    )


async def _events(
    head: dict[str, Any],
    deltas: AsyncGenerator[tuple[int, Delta], None],
    body: CompletionRequest,
    usage: TokenUsage,
    shown: Shown,
) -> AsyncGenerator[bytes, None]:
    answers = body.n or 1
    try:
        async for number, delta in deltas:
            index = number * answers + delta.candidate
            yield event({**head, "choices": [_choice(index, delta, body, shown)]})
        if body.counts_usage:
            yield event({**head, "choices": [], "usage": usage.to_json()})
    finally:
        await deltas.aclose()


async def _read_all(deltas: AsyncGenerator[tuple[int, Delta], None], body: CompletionRequest) -> list[list[Delta]]:
    read: list[list[Delta]] = [[] for _ in body.prompts()]
    for number, delta in await read_answers(deltas):
        read[number].append(delta)
    return read


def _choices(read: list[list[Delta]], body: CompletionRequest, shown: Shown) -> list[dict[str, Any]]:
    answers = [answer for deltas in read for answer in whole_answers(deltas)]
    return [_choice(index, answer, body, shown) for index, answer in enumerate(answers)]


def _choice(index: int, answer: Delta | Answer, body: CompletionRequest, shown: Shown) -> dict[str, Any]:
    token_ids = {"token_ids": list(answer.token_ids[answer.prompt_tokens :])} if shown.token_ids else {}
    return {
        **token_ids,
        "index": index,
        "text": answer.text,
        "finish_reason": answer.finish_reason or None,
        "logprobs": completion_logprobs(answer, body.return_tokens_as_token_ids) if answer.logprobs else None,
        **alignment_to_json(answer),
    }
