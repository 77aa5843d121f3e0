"""``POST /v1/chat/completions``: go on with a conversation, as OpenAI's API has it."""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from uuid import uuid4

from fastapi import APIRouter, Request
from starlette.responses import Response

from clients.answer import Answer, Delta, whole_answers
from serving.gateway.answers import read_all
from serving.gateway.bodies import JsonRoute
from serving.gateway.conversation import Conversation, converse, parse_delta
from serving.gateway.events import EVENTS, event, event_stream
from serving.gateway.gateway import while_connected
from serving.gateway.large_answers import json_response
from serving.gateway.logprobs import chat_logprobs, count_values
from serving.gateway.schemas.base import FAILURES
from serving.gateway.schemas.chat import ChatCompletion, ChatRequest
from serving.gateway.tool_parser import ToolCall, ToolParser

router = APIRouter(prefix="/v1", tags=["text"], responses=FAILURES, route_class=JsonRoute)


@router.post("/chat/completions", response_model=None, responses={200: {"model": ChatCompletion, "content": EVENTS}})
async def chat(request: Request, body: ChatRequest) -> Response:
    """Go on with a conversation."""
    conversation = await converse(request, body)
    usage = conversation.usage
    head = {"id": f"chatcmpl-{uuid4().hex}", "created": int(time.time()), "model": body.model}
    if body.stream:
        return await event_stream(request, _events(head, conversation, body))
    read = await while_connected(request, read_all(conversation.deltas))
    return await json_response(
        lambda: {
            **head,
            "object": "chat.completion",
            "choices": _choices(read, body, conversation),
            "usage": usage.to_json(),
        },
        count_values(read),
    )


async def _events(head: dict[str, Any], conversation: Conversation, body: ChatRequest) -> AsyncGenerator[bytes, None]:
    head = {**head, "object": "chat.completion.chunk"}
    parsers: dict[int, ToolParser | None] = {}
    async with aclosing(conversation.deltas) as deltas:
        async for delta in deltas:
            is_first = delta.candidate not in parsers
            parser = parsers.setdefault(delta.candidate, conversation.parser())
            messages: list[dict[str, Any]] = [
                {"content": part} if isinstance(part, str) else {"tool_calls": [part.to_json()]}
                for part in parse_delta(parser, delta)
            ] or [{}]
            if is_first:
                messages[0] = {"role": "assistant", **messages[0]}
            *before, last = messages
            choice = _choice(delta.candidate, delta, body, parser is not None and parser.has_whole_calls)
            for message in before:
                part = {**choice, "finish_reason": None, "logprobs": None, "delta": message}
                yield event({**head, "choices": [part]})
            yield event({**head, "choices": [{**choice, "delta": last}]})
        if body.counts_usage:
            yield event({**head, "choices": [], "usage": conversation.usage.to_json()})


def _choices(deltas: list[Delta], body: ChatRequest, conversation: Conversation) -> list[dict[str, Any]]:
    choices = []
    for index, answer in enumerate(whole_answers(deltas)):
        items = conversation.read(answer.text)
        calls = [item for item in items if isinstance(item, ToolCall)]
        content = "".join(item for item in items if isinstance(item, str))
        message: dict[str, Any] = {"role": "assistant", "content": content if content or not calls else None}
        if calls:
            message["tool_calls"] = [call.to_json() for call in calls]
        is_call = bool(calls) and calls[-1].is_whole
        choices.append({**_choice(index, answer, body, is_call), "message": message})
    return choices


def _choice(index: int, answer: Delta | Answer, body: ChatRequest, calls: bool) -> dict[str, Any]:
    logprobs = {"content": chat_logprobs(answer, body.return_tokens_as_token_ids)} if answer.logprobs else None
    return {
        "index": index,
        "finish_reason": "tool_calls" if calls and answer.finish_reason == "stop" else answer.finish_reason or None,
        "logprobs": logprobs,
    }
