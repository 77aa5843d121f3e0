"""``POST /v1/responses``: go on with a conversation, as OpenAI's newer API has it.

Source: OpenAI, API reference, Responses: objects and streaming events.
"""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from itertools import count
from typing import Any
from uuid import uuid4

from fastapi import APIRouter, Request
from starlette.responses import Response

from clients.answer import only_answer
from serving.gateway.answers import TokenUsage, read_all
from serving.gateway.bodies import JsonRoute
from serving.gateway.conversation import AnswerStream, Conversation, converse
from serving.gateway.events import EVENTS, event, event_stream
from serving.gateway.gateway import while_connected
from serving.gateway.large_answers import json_response
from serving.gateway.schemas.base import FAILURES
from serving.gateway.schemas.responses import ResponseBody, ResponseRequest
from serving.gateway.tools import ToolCall

router = APIRouter(prefix="/v1", tags=["text"], responses=FAILURES, route_class=JsonRoute)


@router.post("/responses", response_model=None, responses={200: {"model": ResponseBody, "content": EVENTS}})
async def respond(request: Request, body: ResponseRequest) -> Response:
    """Go on with a conversation, in items."""
    conversation = await converse(request, body.chat())
    head = _head(body)
    if body.stream:
        return await event_stream(request, _events(head, conversation))
    read = await while_connected(request, read_all(conversation.deltas))
    answer = only_answer(read)
    text, calls = conversation.read(answer.text)
    output = _output(text, calls, _id("msg"))
    return await json_response(lambda: _whole(head, output, answer.finish_reason, conversation.usage), len(read))


async def _events(head: dict[str, Any], conversation: Conversation) -> AsyncGenerator[bytes, None]:
    numbers, name = count(), _id("msg")
    place: dict[str, Any] = {"item_id": name, "output_index": 0, "content_index": 0}

    def said(kind: str, **fields: Any) -> bytes:
        return event({"type": f"response.{kind}", "sequence_number": next(numbers), **fields})

    def opened() -> bytes:
        item = {**_message("", name), "status": "in_progress", "content": []}
        return said("output_item.added", output_index=0, item=item) + said(
            "content_part.added", **place, part=_part("")
        )

    text, calls, reason, answer = "", list[ToolCall](), "", AnswerStream(conversation.tools)
    async with aclosing(conversation.deltas) as deltas:
        async for delta in deltas:
            if answer.is_new:
                begun = {**head, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
                yield said("created", response=begun) + said("in_progress", response=begun)
            piece, calls = answer.add(delta)
            reason = delta.finish_reason
            if piece:
                yield (b"" if text else opened()) + said("output_text.delta", **place, delta=piece, logprobs=[])
                text += piece
    output = _output(text, calls, name)
    for index, item in enumerate(output):
        if item["type"] == "message":
            yield (b"" if text else opened()) + said("output_text.done", **place, text=text, logprobs=[])
            yield said("content_part.done", **place, part=_part(text))
        else:
            yield said("output_item.added", output_index=index, item={**item, "status": "in_progress", "arguments": ""})
            called: dict[str, Any] = {"item_id": item["id"], "output_index": index}
            yield said("function_call_arguments.delta", **called, delta=item["arguments"])
            yield said("function_call_arguments.done", **called, name=item["name"], arguments=item["arguments"])
        yield said("output_item.done", output_index=index, item=item)
    whole = _whole(head, output, reason, conversation.usage)
    yield said(whole["status"], response=whole)


def _head(body: ResponseRequest) -> dict[str, Any]:
    form = body.text.model_dump(by_alias=True, exclude_none=True) if body.text else {}
    chosen = body.tool_choice or "auto"
    return {
        "id": _id("resp"),
        "object": "response",
        "created_at": int(time.time()),
        "error": None,
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "metadata": body.metadata or {},
        "model": body.model,
        "parallel_tool_calls": body.parallel_tool_calls,
        "previous_response_id": None,
        "store": False,
        "temperature": 1.0 if body.temperature is None else body.temperature,
        "text": {"format": {"type": "text"}, **form},
        "tool_choice": chosen if isinstance(chosen, str) else chosen.model_dump(),
        "tools": [tool.model_dump() for tool in body.tools or ()],
        "top_p": 1.0 if body.top_p is None else body.top_p,
    }


def _whole(head: dict[str, Any], output: list[dict[str, Any]], reason: str, usage: TokenUsage) -> dict[str, Any]:
    is_cut = reason == "length"
    return {
        **head,
        "status": "incomplete" if is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "output": output,
        "usage": {
            "input_tokens": usage.prompt,
            "output_tokens": usage.completion,
            "total_tokens": usage.tokens,
            "input_tokens_details": {"cached_tokens": 0},  # the field must be there; servers do not say it of a request
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def _output(text: str, calls: Sequence[ToolCall], name: str) -> list[dict[str, Any]]:
    return [*([_message(text, name)] if text or not calls else []), *map(_call, calls)]


def _message(text: str, name: str) -> dict[str, Any]:
    return {"type": "message", "id": name, "role": "assistant", "status": "completed", "content": [_part(text)]}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _call(call: ToolCall) -> dict[str, Any]:
    said = {"name": call.name, "arguments": call.arguments, "status": "completed"}
    return {"type": "function_call", "id": _id("fc"), "call_id": _id("call"), **said}


def _id(kind: str) -> str:
    return f"{kind}_{uuid4().hex}"
