"""``/v1/chat/completions``."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from attendant.errors import InputError
from serving.gateway.bodies import parse_json
from serving.gateway.schemas.base import Name, Strict, Usage
from serving.gateway.schemas.sampling_params import DecodingFields, MaxTokens, TopLogprobs
from serving.gateway.schemas.tools import Call, Calls, NamedTool, SaidCall, Tool, ToolChoice, ToolList

MOST_MESSAGES = 2048
AtLeastOne = Annotated[MaxTokens, Field(ge=1)]
MOST_PARTS = 2048
"""Of all messages together; calls of tools likewise."""


class TextPart(Strict):
    """A part of a message."""

    type: Literal["text"]
    text: str


class Message(Strict):
    """What one side said."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | Annotated[list[TextPart], Field(min_length=1, fail_fast=True)] | None = None
    name: str | None = None
    tool_calls: Calls | None = Field(default=None, description="of an assistant")
    tool_call_id: str | None = Field(default=None, description="of a tool: the call that it answers")

    @model_validator(mode="after")
    def _require_content(self) -> Self:
        if self.content is None and not (self.role == "assistant" and self.tool_calls):
            raise ValueError("content is missing; send a text")
        return self

    def plain(self) -> dict[str, Any]:
        """As templates know it: content is one text, a developer is called system, and arguments are objects."""
        parts = self.content or ""
        content = parts if isinstance(parts, str) else "".join(part.text for part in parts)
        found = {"role": "system" if self.role == "developer" else self.role, "content": content}
        calls = [
            {"id": call.id, "type": call.type, "function": {"name": call.function.name, "arguments": _read(call)}}
            for call in self.tool_calls or ()
        ]
        others = {"name": self.name, "tool_call_id": self.tool_call_id, "tool_calls": calls}
        return {**found, **{name: value for name, value in others.items() if value}}


def _read(call: Call) -> dict[str, Any]:
    expected, remedy = "arguments of a call, an object of JSON", "send what the call had"
    try:
        found = parse_json(call.function.arguments)
    except InputError as error:
        raise InputError(expected, error.found, remedy, param="messages") from error
    if not isinstance(found, dict):
        raise InputError(expected, call.function.arguments[:80], remedy, param="messages")
    return found


def _bound_parts(messages: object) -> object:
    given = [one for one in messages if isinstance(one, dict)] if type(messages) is list else []
    for name, parts in (("content", "parts"), ("tool_calls", "calls")):
        found = sum(len(one[name]) for one in given if isinstance(one.get(name), list))
        if found > MOST_PARTS:
            raise ValueError(f"messages have at most {MOST_PARTS} {parts} together; found {found}; send fewer")
    return messages


Messages = Annotated[
    list[Message], Field(min_length=1, max_length=MOST_MESSAGES, fail_fast=True), BeforeValidator(_bound_parts)
]


class ChatRequest(DecodingFields):
    """A conversation to go on with."""

    model: Name
    messages: Messages = Field(examples=[[{"role": "user", "content": "Who are you?"}]])
    max_tokens: AtLeastOne | None = None
    max_completion_tokens: AtLeastOne | None = None
    tools: ToolList | None = None
    tool_choice: ToolChoice | None = Field(default=None, description="auto where there are tools")
    parallel_tool_calls: bool = True
    logprobs: bool | None = None
    top_logprobs: TopLogprobs | None = None

    def chosen_tools(self) -> list[Tool]:
        """The tools that may be called.

        Raises:
            InputError: the one that must be called is none of them, or there are none.
        """
        tools, choice = self.tools or [], self.tool_choice or "auto"
        if choice == "none":
            return []
        if isinstance(choice, NamedTool):
            named = choice.function.name
            tools = [tool for tool in tools if tool.function.name == named]
        if not tools and choice != "auto":
            raise InputError("the tool that is to be called among tools", "none", "send it", param="tool_choice")
        return tools

    @property
    def names_tool(self) -> bool:
        """Whether one tool must be called, and once."""
        return isinstance(self.tool_choice, NamedTool)

    @property
    def forces_tools(self) -> bool:
        """Whether the answer must be a call."""
        return self.tool_choice not in (None, "none", "auto")


class ChatTopToken(BaseModel):
    """A token, by its number, and its log-probability."""

    token: str
    logprob: float
    bytes: list[int] | None = None


class ChatToken(ChatTopToken):
    """The same of a token that was chosen, beside those that might have been."""

    top_logprobs: list[ChatTopToken]


class ChatLogprobs(BaseModel):
    """Log-probabilities of an answer's tokens."""

    content: list[ChatToken]
    refusal: None = None


class Said(BaseModel):
    """What the model said."""

    role: Literal["assistant"]
    content: str | None
    refusal: None = None
    tool_calls: list[SaidCall] | None = None


class ChatChoice(BaseModel):
    index: int
    message: Said
    finish_reason: Literal["stop", "length", "tool_calls"]
    logprobs: ChatLogprobs | None = None


class ChatCompletion(BaseModel):
    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
