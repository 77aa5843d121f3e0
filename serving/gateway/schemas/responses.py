"""``/v1/responses``: the same as a chat, in items; nothing is kept between requests."""

from typing import Annotated, Any, Literal

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from serving.gateway.schemas.base import Name, Strict
from serving.gateway.schemas.chat import MOST_MESSAGES, AtLeastOne, ChatRequest
from serving.gateway.schemas.sampling_params import Metadata
from serving.gateway.schemas.tools import MOST_TOOLS, FunctionName

MOST_PARTS = 2048


class Item(BaseModel):
    """A part of a conversation; what an answer of ours says beside this (``id``, ``status``, …) may come back."""

    model_config = ConfigDict(extra="ignore", strict=True)


class ContentPart(Item):
    type: Literal["input_text", "output_text", "text"]
    text: str


class MessageItem(Item):
    """What one side said."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: str | Annotated[list[ContentPart], Field(min_length=1, max_length=MOST_PARTS, fail_fast=True)]

    def message(self) -> dict[str, Any]:
        """The same as a message of a chat."""
        content = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return {"role": self.role, "content": content}


class CallItem(Item):
    """A call of a tool, as an answer had it."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    status: str = Field(default="completed", description="one that is not completed is left out")

    def message(self) -> dict[str, Any]:
        """The same as a message of a chat."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"role": "assistant", "tool_calls": [{"id": self.call_id, "type": "function", "function": function}]}


class ResultItem(Item):
    """What a tool answered."""

    type: Literal["function_call_output"]
    call_id: str
    output: str

    def message(self) -> dict[str, Any]:
        """The same as a message of a chat."""
        return {"role": "tool", "tool_call_id": self.call_id, "content": self.output}


class FunctionTool(Strict):
    """A tool, by its name and the JSON schema of its arguments."""

    type: Literal["function"]
    name: FunctionName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ChosenTool(Strict):
    type: Literal["function"]
    name: FunctionName


class TextFormat(Strict):
    """What an answer must look like."""

    type: Literal["text", "json_object", "json_schema"]
    name: str = ""
    description: str | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")
    strict: bool | None = None


class TextOptions(Strict):
    format: TextFormat | None = None
    verbosity: str | None = Field(default=None, description="taken, and not used")


class ResponseRequest(Strict):
    """A conversation to go on with, in items."""

    model: Name
    input: (
        str
        | Annotated[
            list[CallItem | ResultItem | MessageItem], Field(min_length=1, max_length=MOST_MESSAGES, fail_fast=True)
        ]
    ) = Field(examples=["Who are you?"])
    instructions: str | None = Field(default=None, description="stand before the input, as the system's message")
    max_output_tokens: AtLeastOne | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    stream: bool = False
    text: TextOptions | None = None
    tools: Annotated[list[FunctionTool], Field(max_length=MOST_TOOLS, fail_fast=True)] | None = None
    tool_choice: Literal["none", "auto", "required"] | ChosenTool | None = None
    parallel_tool_calls: bool = True
    metadata: Metadata | None = Field(default=None, description="comes back with the answer")
    store: bool | None = Field(default=None, description="taken: nothing is kept")
    user: str | None = Field(default=None, description="taken, and not used")

    def chat(self) -> ChatRequest:
        """The same as a request to ``/v1/chat/completions``.

        Raises:
            RequestValidationError: it says what no chat can.
        """
        said = [{"role": "user", "content": self.input}] if isinstance(self.input, str) else _messages(self.input)
        if self.instructions:
            said.insert(0, {"role": "system", "content": self.instructions})
        asked: dict[str, Any] = {
            "model": self.model,
            "messages": said,
            "max_completion_tokens": self.max_output_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "stream": self.stream,
            "stream_options": {"include_usage": True},
            "response_format": _format(self.text.format if self.text else None),
            "tools": [{"type": "function", "function": tool.model_dump(exclude={"type"})} for tool in self.tools or ()],
            "parallel_tool_calls": self.parallel_tool_calls,
            "tool_choice": {"type": "function", "function": {"name": self.tool_choice.name}}
            if isinstance(self.tool_choice, ChosenTool)
            else self.tool_choice,
        }
        try:
            chat: ChatRequest = ChatRequest.model_validate(asked)
        except ValidationError as error:
            raise RequestValidationError(error.errors(include_url=False, include_input=False)) from error
        return chat


def _messages(items: list[CallItem | ResultItem | MessageItem]) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = []
    for item in items:
        if isinstance(item, CallItem) and item.status != "completed":
            continue  # its arguments broke off
        message = item.message()
        if "tool_calls" in message and said and said[-1]["role"] == "assistant":  # calls belong to what was said
            said[-1].setdefault("tool_calls", []).extend(message["tool_calls"])
        else:
            said.append(message)
    return said


def _format(form: TextFormat | None) -> dict[str, Any] | None:
    if form is None:
        return None
    if form.type != "json_schema":
        return {"type": form.type}
    return {"type": "json_schema", "json_schema": {"name": form.name, "schema": form.schema_}}


class ResponseUsage(BaseModel):
    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: dict[str, int]
    output_tokens_details: dict[str, int]


class ResponseBody(BaseModel):
    """The answer: messages and calls of tools as items."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["in_progress", "completed", "incomplete"]
    model: str
    output: list[dict[str, Any]]
    usage: ResponseUsage | None
    incomplete_details: dict[str, str] | None
