"""How an answer is decoded, by OpenAI's names where it has them and by ours (docs/guides/decoding.md) for the rest."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field

from attendant.errors import InputError
from clients.decoding import Decoding
from serving.gateway.schemas.base import StreamOptions, Strict

INT32 = 2**31 - 1
Count = Annotated[int, Field(ge=0, le=INT32)]
Token = Annotated[int, Field(ge=0, le=INT32)]
OPENAI_TEMPERATURE = 1.0
_SAME = (
    *("min_tokens", "top_k", "top_p", "min_p", "typical_p", "seed"),
    *("repetition_penalty", "presence_penalty", "frequency_penalty"),
    *("beam_width", "length_penalty", "early_stopping", "ignore_end", "regex", "draft_tokens", "priority"),
    "deadline_ms",
)


class JsonSchema(Strict):
    """A JSON schema that an answer must keep to."""

    name: str = ""
    description: str | None = None
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None


class ResponseFormat(Strict):
    """What an answer must look like."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class Options(Strict):
    """The options that have the same name in every request."""

    top_k: Count | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    typical_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**64)] | None = None
    presence_penalty: Annotated[float, Field(ge=-100, le=100)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-100, le=100)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=100)] | None = None
    logit_bias: dict[Annotated[str, Field(pattern=r"^[0-9]{1,9}$")], float] | None = Field(
        default=None, description="token id → what is added to its logit"
    )
    min_tokens: Count | None = None
    beam_width: Annotated[int, Field(ge=1, le=32)] | None = None
    length_penalty: Annotated[float, Field(ge=-30, le=30)] | None = None
    early_stopping: Literal["no", "yes", "never"] | None = None
    stop_ids: list[Token] = Field(default_factory=list)
    ignore_end: bool = False
    regex: str | None = None
    draft_tokens: Annotated[int, Field(ge=0, le=32)] | None = None
    priority: Annotated[int, Field(ge=0, le=1)] | None = None
    deadline_ms: Annotated[int, Field(ge=1, le=INT32)] | None = None

    def shared(self) -> dict[str, Any]:
        """The same as arguments of :class:`Decoding`."""
        return {
            **{name: getattr(self, name) for name in _SAME},
            "stop_ids": tuple(self.stop_ids),
            "logit_bias": {int(token): value for token, value in (self.logit_bias or {}).items()},
        }


class Decoded(Options):
    """The options that completions and chats share."""

    # vLLM's name, which load generators send to any server of this protocol.
    ignore_end: bool = Field(default=False, validation_alias=AliasChoices("ignore_end", "ignore_eos"))
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=32)] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = Field(
        default=None, description="1 if not given, as OpenAI has it; 0 is greedy"
    )
    stop: str | list[str] | None = None
    response_format: ResponseFormat | None = None
    user: str | None = Field(default=None, description="taken, and not used")

    def decoding(self, counts: bool, **others: Any) -> Decoding:
        """The same for a client of ours.

        Args:
            counts: whether tokens are to be counted.
            others: options that completions and chats call by different names.

        Raises:
            InputError: options that exclude each other.
        """
        return Decoding(
            **self.shared(),
            **self._form(),
            **others,
            temperature=self._temperature(),
            candidates=self.n,
            stop=(self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ()),
            token_counts=counts,
        )

    @property
    def counts_usage(self) -> bool:
        """Whether an answer is to say how many tokens it took."""
        return not self.stream or (self.stream_options is not None and self.stream_options.include_usage)

    def _temperature(self) -> float | None:
        if self.temperature is None and (self.beam_width or 1) == 1:
            return OPENAI_TEMPERATURE
        return self.temperature

    def _form(self) -> dict[str, Any]:
        form = self.response_format
        if form is None or form.type == "text":
            return {}
        if form.type == "json_object":
            return {"any_json": True}
        if form.json_schema is None:
            raise InputError("json_schema beside the type of response_format", "none", "send the schema")
        return {"json_schema": json.dumps(form.json_schema.schema_)}
