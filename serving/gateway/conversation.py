"""What ``/v1/chat/completions`` and ``/v1/responses`` have in common: from messages to the deltas of answers."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

from starlette.requests import Request

from attendant.errors import InputError
from attendant.sampling_params import SamplingParams
from clients.answer import Delta
from clients.generate import Generator
from clients.served_model import ServedModel
from serving.gateway.answers import TokenUsage, count_tokens
from serving.gateway.chat_templates import CHAT_TEMPLATE, TOOL_CALLS_ID
from serving.gateway.gateway import Gateway
from serving.gateway.logprobs import LOGPROB_VALUES
from serving.gateway.schemas.chat import ChatRequest
from serving.gateway.tool_parser import ToolCall, ToolCallDelta, ToolParser, read_calls
from serving.gateway.tools import Tools, plain_tools, tool_format

ROLE = "<|assistant|>\n"
"""What a template writes around each message is about as long."""


@dataclass(slots=True, kw_only=True)
class Conversation:
    """One conversation that goes on.

    Attributes:
        deltas: of the answers.
        usage: of the request.
        tools: that answers may call, if any, in the format of the model that answers; known once deltas come.
    """

    deltas: AsyncGenerator[Delta, None]
    usage: TokenUsage
    tools: Tools | None = None

    def parser(self) -> ToolParser | None:
        """What reads one of its answers, where it may call tools."""
        return None if self.tools is None else ToolParser(self.tools)

    def read(self, answer: str) -> list[str | ToolCall]:
        """Text and calls of a whole answer, in their order."""
        return [answer] if self.tools is None else read_calls(self.tools, answer)


def parse_delta(parser: ToolParser | None, delta: Delta) -> list[str | ToolCallDelta]:
    """Text and parts of calls that can be sent when a delta has come."""
    return [delta.text] if parser is None else parser.add(delta.text, bool(delta.finish_reason))


async def converse(request: Request, body: ChatRequest) -> Conversation:
    """Check a request, and begin the answers to it.

    Raises:
        InputError: an option or the tools are none that the model can take.
        RefusedError: the key's quota has no room for it.
    """
    gateway = Gateway.of(request)
    usage = gateway.usage(request, body.model, body.messages)
    options = gateway.limit_time(_options(body, body.counts_usage or gateway.counts_prompts(request)))
    if not body.stream:
        await gateway.require_bounded(body.model, [], options, LOGPROB_VALUES)
    messages = [message.plain() for message in body.messages]
    told = plain_tools([tool.model_dump() for tool in body.chosen_tools()])
    text = "".join(_said(message) + ROLE for message in messages) + (json.dumps(told) if told else "")
    await gateway.reserve_tokens(request, body.model, [text], options)

    async def prepare(model: ServedModel) -> str:
        # Of what the server that is asked has now: another may have another version of the model.
        tools = conversation.tools = _tools_of(model, body)
        prompt = await gateway.templates.render(model, messages, told) + (tools.prompt_end if tools else "")
        await gateway.reserve_tokens(request, body.model, [prompt], options)  # with what the template has added
        return prompt

    def ask(model: Generator, prompt: str) -> AsyncIterator[Delta]:
        tools = conversation.tools
        return model.chat(prompt, options if tools is None else replace(options, grammar=tools.grammar()))

    deltas = count_tokens(gateway.stream_prepared(Generator, body.model, prepare, ask), usage, text)
    conversation = Conversation(deltas=deltas, usage=usage)
    return conversation


def _said(message: dict[str, Any]) -> str:
    others = [
        value if isinstance(value, str) else json.dumps(value) for name, value in message.items() if name != "role"
    ]
    return "".join(others)


def _tools_of(served: ServedModel, body: ChatRequest) -> Tools | None:
    chosen, template = body.chosen_tools(), str(served.parameters.get(CHAT_TEMPLATE, ""))
    if not chosen or not template:  # which rendering says
        return None
    return Tools(
        schemas={tool.function.name: tool.function.parameters or {"type": "object"} for tool in chosen},
        format=tool_format(template),
        marker_token=served.parameters.get(TOOL_CALLS_ID),
        is_forced=body.forces_tools,
        are_parallel=body.parallel_tool_calls and not body.names_tool,
    )


def _options(body: ChatRequest, counts: bool) -> SamplingParams:
    options = body.sampling_params(
        counts,
        max_tokens=body.max_completion_tokens or body.max_tokens,
        logprobs=bool(body.logprobs),
        top_logprobs=body.top_logprobs or 0,
    )
    if body.chosen_tools() and options.structure is not None:
        raise InputError("tools, or a form of the answer", "both", "leave one of them out", param="tools")
    return options
