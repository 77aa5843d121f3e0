"""Tools that a chat's answer may call, as OpenAI's API has them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from serving.gateway.schemas.base import Strict

MOST_TOOLS, MOST_CALLS = 128, 128
FunctionName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_.-]{1,64}$")]


class Function(Strict):
    """A function, by its name and the JSON schema of its arguments."""

    name: FunctionName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = Field(default=None, description="taken: arguments are held to the schema in any case")


class Tool(Strict):
    type: Literal["function"]
    function: Function


class NamedFunction(Strict):
    name: FunctionName


class NamedTool(Strict):
    """The tool that is to be called."""

    type: Literal["function"]
    function: NamedFunction


class CalledFunction(Strict):
    name: str
    arguments: str = Field(description="as JSON")


class Call(Strict):
    """A call that an assistant made."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction


class SaidCall(BaseModel):
    """A call of an answer."""

    id: str
    type: Literal["function"]
    function: CalledFunction
    index: int | None = None


ToolList = Annotated[list[Tool], Field(max_length=MOST_TOOLS, fail_fast=True)]
Calls = Annotated[list[Call], Field(max_length=MOST_CALLS, fail_fast=True)]
ToolChoice = Literal["none", "auto", "required"] | NamedTool
