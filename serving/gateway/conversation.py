"""What ``/v1/chat/completions`` and ``/v1/responses`` have in common: from messages to the deltas of answers."""

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.requests import Request

from attendant.errors import InputError
from attendant.sampling_params import SamplingParams
from clients.answer import Delta
from clients.generate import Generator
from serving.gateway.answers import TokenUsage, count_tokens
from serving.gateway.chat_templates import CHAT_TEMPLATE
from serving.gateway.gateway import Gateway
from serving.gateway.schemas.chat import ChatRequest
from serving.gateway.tools import ToolCall, Tools, plain_tools, tool_format

ROLE = "<|assistant|>\n"
"""What a template writes around each message is about as long."""


@dataclass(slots=True, kw_only=True)
class Conversation:
    """One conversation that goes on.

    Attributes:
        deltas: of the answers.
        usage: of the request.
        tools: that answers may call, if any.
    """

    deltas: AsyncGenerator[Delta, None]
    usage: TokenUsage
    tools: Tools | None

    def read(self, answer: str) -> tuple[str, list[ToolCall]]:
        """The text of a whole answer, and its calls of tools."""
        return (answer, []) if self.tools is None else self.tools.read(answer)


@dataclass(slots=True)
class AnswerStream:
    """One answer as its deltas come: what may be a call is held back to the end.

    Attributes:
        tools: that it may call.
        is_new: whether nothing of it has come.
    """

    tools: Tools | None
    _text: str = field(init=False, default="")
    _sent: int = field(init=False, default=0)
    is_new: bool = field(init=False, default=True)

    def add(self, delta: Delta) -> tuple[str, list[ToolCall]]:
        """What can be sent now; calls come with the last delta."""
        self.is_new = False
        if self.tools is None:
            return delta.text, []
        self._text += delta.text
        if delta.finish_reason:
            content, calls = self.tools.read(self._text)
            return content[self._sent :], calls
        begin, self._sent = self._sent, max(self._sent, self.tools.holds_back(self._text))
        return self._text[begin : self._sent], []


async def converse(request: Request, body: ChatRequest) -> Conversation:
    """Check a request, and begin the answers to it.

    Raises:
        InputError: an option or the tools are none that the model can take.
        RefusedError: the key's quota has no room for it.
    """
    gateway = Gateway.of(request)
    usage = gateway.usage(request, body.model, body.messages)
    tools = await _tools_of(gateway, body)
    options = gateway.limit_time(_options(body, tools, body.counts_usage or gateway.counts_prompts(request)))
    if not body.stream:
        await gateway.require_bounded(body.model, [], options)
    messages = [message.plain() for message in body.messages]
    told = plain_tools([tool.model_dump() for tool in body.chosen_tools()])
    text = "".join(_said(message) + ROLE for message in messages) + (json.dumps(told) if told else "")
    await gateway.reserve_tokens(request, body.model, [text], options)

    async def ask(model: Generator) -> AsyncGenerator[Delta, None]:
        prompt = await gateway.templates.render(model.model, messages, told)
        async for delta in model.chat(prompt + (tools.prompt_end if tools else ""), options):
            yield delta

    deltas = count_tokens(gateway.stream(Generator, body.model, ask), usage, text)
    return Conversation(deltas=deltas, usage=usage, tools=tools)


def _said(message: dict[str, Any]) -> str:
    others = [
        value if isinstance(value, str) else json.dumps(value) for name, value in message.items() if name != "role"
    ]
    return "".join(others)


async def _tools_of(gateway: Gateway, body: ChatRequest) -> Tools | None:
    if not (chosen := body.chosen_tools()):
        return None
    served = (await gateway.pool.models()).get(body.model)
    template = "" if served is None else str(served.parameters.get(CHAT_TEMPLATE, ""))
    if not template:  # which its stream says
        return None
    return Tools(
        schemas={tool.function.name: tool.function.parameters or {"type": "object"} for tool in chosen},
        format=tool_format(template),
        is_forced=body.forces_tools,
        are_parallel=body.parallel_tool_calls and not body.names_tool,
    )


def _options(body: ChatRequest, tools: Tools | None, counts: bool) -> SamplingParams:
    options = body.sampling_params(
        counts,
        max_tokens=body.max_completion_tokens or body.max_tokens,
        logprobs=bool(body.logprobs),
        top_logprobs=body.top_logprobs or 0,
    )
    if tools is None:
        return options
    if options.structure is not None:
        raise InputError("tools, or a form of the answer", "both", "leave one of them out", param="tools")
    return replace(options, grammar=tools.grammar())
