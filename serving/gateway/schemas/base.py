"""What every request and response has in common."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Strict(BaseModel):
    """A request: a field that is not supported is refused by name."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _leave_nulls_out(cls, fields: Any) -> Any:
        # As OpenAI's API has it, whose own client sends every field of an answer that comes back.
        return {name: value for name, value in fields.items() if value is not None} if type(fields) is dict else fields


class Failure(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class FailureBody(BaseModel):
    """The body of every response that is no success."""

    error: Failure


class PromptTokens(BaseModel):
    """Of the tokens of prompts: how many needed no computing, as a prefix cache held them."""

    cached_tokens: int


class Usage(BaseModel):
    """How many tokens a request took."""

    prompt_tokens: int
    completion_tokens: int = 0
    total_tokens: int
    prompt_tokens_details: PromptTokens | None = None


class StreamOptions(Strict):
    """How a stream ends.

    Attributes:
        include_usage: whether its last event counts the tokens.
    """

    include_usage: bool = False


Name = Annotated[str, Field(min_length=1, max_length=256, examples=["stdlib-lm"])]
FAILURES: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": FailureBody, "description": "the request was refused; the message says what to do"},
    "5XX": {"model": FailureBody, "description": "a Triton behind the gateway failed"},
}
