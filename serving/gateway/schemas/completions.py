"""``/v1/completions``."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from attendant.sampling_params import PARAMS
from serving.gateway.schemas.base import Name, Usage
from serving.gateway.schemas.sampling_params import DecodingFields, MaxTokens, Token, TopLogprobs

MOST_PROMPTS = 64
Tokens = Annotated[list[Token], Field(min_length=1, fail_fast=True)]


class CompletionRequest(DecodingFields):
    """A prompt to continue, or several; a prompt may be given by its tokens."""

    model: Name
    prompt: (
        str
        | Tokens
        | Annotated[list[str], Field(min_length=1, max_length=MOST_PROMPTS, fail_fast=True)]
        | Annotated[list[Tokens], Field(min_length=1, max_length=MOST_PROMPTS, fail_fast=True)]
    ) = Field(examples=["Open a file and"])
    max_tokens: MaxTokens | None = Field(default=None, description="as many as the model allows if not given")
    echo: bool = False
    parse_special: bool = Field(default=False, description=PARAMS["parse_special"].help)
    return_token_ids: bool = Field(
        default=False, description="answers say their tokens, as vLLM's do; those of a model without a tokenizer always"
    )
    logprobs: TopLogprobs | None = Field(
        default=None, description="how many of the most probable tokens come beside each token"
    )

    explain: bool = Field(
        default=False, description="each token comes with its attention to the prompt and to the answer before it"
    )

    def prompts(self) -> list[str | list[int]]:
        """One or more prompts, each a text or tokens."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if isinstance(self.prompt[0], int):
            return [self.prompt]
        return list(self.prompt)


class CompletionLogprobs(BaseModel):
    """Log-probabilities, None of a prompt's first token; a part of a character is called ``bytes:`` and its bytes."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None = None
    text_offset: list[int] | None = None


class CompletionChoice(BaseModel):
    """One answer, or a delta of one.

    Attributes:
        index: which of several answers.
        text: what it says, or adds.
        finish_reason: none before the end.
        logprobs: of each token, if requested.
        alignment: for each token the weights of the prompt's tokens and of those before it, if requested.
        tokens: what each token adds to the text, if an alignment was requested.
        source: the prompt's tokens; with the first delta of an alignment.
    """

    index: int
    text: str
    finish_reason: Literal["stop", "length"] | None
    logprobs: CompletionLogprobs | None = None
    alignment: list[list[float]] | None = None
    tokens: list[str] | None = None
    source: list[str] | None = None
    token_ids: list[int] | None = None


class Completion(BaseModel):
    """Answers; of a stream, one event."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = None
