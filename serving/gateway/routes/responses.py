"""``POST /v1/responses``: go on with a conversation, as OpenAI's newer API has it.

Source: OpenAI, API reference, Responses: objects and streaming events.
"""

import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import uuid4

from fastapi import APIRouter, Request
from pydantic_core import from_json
from starlette.responses import Response

from clients.answer import only_answer
from serving.gateway.answers import TokenUsage, read_all
from serving.gateway.bodies import JsonRoute
from serving.gateway.conversation import Conversation, converse, parse_delta
from serving.gateway.events import EVENTS, event, event_stream
from serving.gateway.gateway import while_connected
from serving.gateway.large_answers import json_response
from serving.gateway.schemas.base import FAILURES
from serving.gateway.schemas.responses import ResponseBody, ResponseRequest
from serving.gateway.tool_parser import ToolCall, ToolCallDelta

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
    output = [_message(item) if isinstance(item, str) else _call(item) for item in conversation.read(answer.text)]
    return await json_response(
        lambda: _whole(head, output or [_message("")], answer.finish_reason, conversation.usage), len(read)
    )


async def _events(head: dict[str, Any], conversation: Conversation) -> AsyncGenerator[bytes, None]:
    items, reason, parser, is_new = _ItemEvents(), "", None, True
    async with aclosing(conversation.deltas) as deltas:
        async for delta in deltas:
            if is_new:
                begun = {**head, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
                yield items.say("created", response=begun) + items.say("in_progress", response=begun)
                parser, is_new = conversation.parser(), False
            reason = delta.finish_reason
            if said := b"".join(items.add(part) for part in parse_delta(parser, delta) if part):
                yield said
    if said := (b"" if items.output else items.add("")) + items.close():
        yield said
    whole = _whole(head, items.output, reason, conversation.usage)
    yield items.say(whole["status"], response=whole)


@dataclass(slots=True)
class _ItemEvents:
    """Events of the items of a stream; the last item of ``output`` may be open."""

    output: list[dict[str, Any]] = field(default_factory=list)
    _is_open: bool = False
    _numbers: Iterator[int] = field(default_factory=count)

    def say(self, kind: str, **fields: Any) -> bytes:
        return event({"type": f"response.{kind}", "sequence_number": next(self._numbers), **fields})

    def add(self, part: str | ToolCallDelta) -> bytes:
        if isinstance(part, str):
            said = b"" if self._is_open and self.output[-1]["type"] == "message" else self._open(_message(""))
            self.output[-1]["content"][0]["text"] += part
            place = {**self._place(), "content_index": 0}
            return said + (self.say("output_text.delta", **place, delta=part, logprobs=[]) if part else b"")
        said = self._open(_call(ToolCall(name=part.name, arguments="", id=part.id))) if part.id else b""
        self.output[-1]["arguments"] += part.arguments
        delta = {**self._place(), "delta": part.arguments}
        return said + (self.say("function_call_arguments.delta", **delta) if part.arguments else b"")

    def close(self) -> bytes:
        if not self._is_open:
            return b""
        self._is_open, item, place = False, self.output[-1], self._place()
        if item["type"] == "message":
            (part,), place = item["content"], {**place, "content_index": 0}
            said = self.say("output_text.done", **place, text=part["text"], logprobs=[])
            said += self.say("content_part.done", **place, part=part)
        else:
            called = {"name": item["name"], "arguments": item["arguments"]}
            said = self.say("function_call_arguments.done", **place, **called)
        return said + self.say("output_item.done", output_index=len(self.output) - 1, item=item)

    def _open(self, item: dict[str, Any]) -> bytes:
        said = self.close()
        self.output.append(item)
        self._is_open, place = True, self._place()
        begun = {**item, "status": "in_progress"}
        if item["type"] == "message":
            said += self.say("output_item.added", output_index=place["output_index"], item={**begun, "content": []})
            return said + self.say("content_part.added", **place, content_index=0, part=_part(""))
        return said + self.say("output_item.added", output_index=place["output_index"], item=begun)

    def _place(self) -> dict[str, Any]:
        return {"item_id": self.output[-1]["id"], "output_index": len(self.output) - 1}


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
    if is_cut and output[-1]["type"] == "function_call" and not _is_json(output[-1]["arguments"]):
        output = [*output[:-1], {**output[-1], "status": "incomplete"}]
    return {
        **head,
        "status": "incomplete" if is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "output": output,
        "usage": {
            "input_tokens": usage.prompt,
            "output_tokens": usage.completion,
            "total_tokens": usage.tokens,
            "input_tokens_details": {"cached_tokens": usage.cached or 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def _is_json(text: str) -> bool:
    try:
        return isinstance(from_json(text), dict)
    except ValueError:
        return False


def _message(text: str) -> dict[str, Any]:
    return {"type": "message", "id": _id("msg"), "role": "assistant", "status": "completed", "content": [_part(text)]}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _call(call: ToolCall) -> dict[str, Any]:
    said = {"name": call.name, "arguments": call.arguments, "status": "completed"}
    return {"type": "function_call", "id": _id("fc"), "call_id": call.id, **said}


def _id(kind: str) -> str:
    return f"{kind}_{uuid4().hex}"
