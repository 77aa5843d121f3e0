"""``/v1/chat/completions``."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from serving.gateway.schemas.base import Name, Strict, Usage
from serving.gateway.schemas.sampling_params import DecodingFields, MaxTokens, TopLogprobs

MOST_MESSAGES = 2048


class TextPart(Strict):
    """A part of a message."""

    type: Literal["text"]
    text: str


class Message(Strict):
    """What one side said."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | Annotated[list[TextPart], Field(min_length=1, fail_fast=True)]
    name: str | None = None

    def plain(self) -> dict[str, str]:
        """As templates know it: content is one text, and a developer is called system."""
        content = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        role = "system" if self.role == "developer" else self.role
        return {"role": role, "content": content, **({"name": self.name} if self.name else {})}


class ChatRequest(DecodingFields):
    """A conversation to go on with."""

    model: Name
    messages: Annotated[list[Message], Field(min_length=1, max_length=MOST_MESSAGES, fail_fast=True)] = Field(
        examples=[[{"role": "user", "content": "Who are you?"}]]
    )
    max_tokens: MaxTokens | None = None
    max_completion_tokens: MaxTokens | None = None
    logprobs: bool | None = None
    top_logprobs: TopLogprobs | None = None


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
    content: str
    refusal: None = None


class ChatChoice(BaseModel):
    index: int
    message: Said
    finish_reason: Literal["stop", "length"]
    logprobs: ChatLogprobs | None = None


class ChatCompletion(BaseModel):
    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
