"""``/tokenize`` and ``/detokenize``, as vLLM has them."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, model_validator

from attendant.sampling_params import PARAMS
from serving.gateway.schemas.base import Name, Strict
from serving.gateway.schemas.chat import Messages
from serving.gateway.schemas.sampling_params import Token
from serving.gateway.schemas.tools import ToolList


class TokenizeRequest(Strict):
    """A text, or a chat as its template writes it."""

    model: Name
    prompt: str | None = Field(default=None, examples=["Open a file and"])
    messages: Messages | None = None
    tools: ToolList | None = None
    add_special_tokens: bool = Field(
        default=True, description="of a prompt: those that the model expects; without, special tokens are read in it"
    )
    parse_special: bool = Field(default=False, description=PARAMS["parse_special"].help)
    return_token_strs: bool = False

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("prompt or messages are sent, one of them")
        return self


class Tokens(BaseModel):
    """The tokens of a text."""

    count: int
    max_model_len: Any
    tokens: list[int]
    token_strs: list[str] | None = None


class DetokenizeRequest(Strict):
    """Tokens that become a text."""

    model: Name
    tokens: Annotated[list[Token], Field(min_length=1, fail_fast=True)] = Field(examples=[[1, 2]])


class Text(BaseModel):
    """The text of tokens, without special ones."""

    prompt: str
