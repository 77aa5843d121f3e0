"""How an answer is decoded: fields of requests, one for each row of :mod:`attendant.sampling_params`."""

from collections.abc import Iterable
from typing import Annotated, Any, get_args

from pydantic import Field, create_model

from attendant.errors import InputError
from attendant.sampling_params import PARAMS, TYPES, SamplingParams
from serving.gateway.schemas.base import StreamOptions, Strict
from serving.gateway.schemas.structured_outputs import StructureFields

INT32 = 2**31 - 1
OPENAI_TEMPERATURE = 1.0
MaxTokens = Annotated[int, Field(ge=PARAMS["max_tokens"].ge, le=PARAMS["max_tokens"].le)]
TopLogprobs = Annotated[int, Field(ge=PARAMS["top_logprobs"].ge, le=PARAMS["top_logprobs"].le)]
StopText = Annotated[str, Field(min_length=1, max_length=PARAMS["stop"].max_length)]
Token = Annotated[int, Field(ge=0, le=INT32)]
Metadata = Annotated[dict[str, str], Field(max_length=16)]
_SPELLED_OTHERWISE = {
    "json_object",
    "json_schema",
    "logprobs",
    "top_logprobs",
    "max_tokens",
    "stop",
    "echo",
    "parse_special",
}
"""Parameters that have another form in OpenAI's requests, or only some of them."""


def fields_of(names: Iterable[str]) -> dict[str, Any]:
    """Parameters as fields of a pydantic model; what a request leaves out is None, or empty."""
    return {name: _field_of(name) for name in names}


def _field_of(name: str) -> tuple[Any, Any]:
    param, kind = PARAMS[name], TYPES[name]
    if name == "logit_bias":
        token = Annotated[str, Field(pattern=r"^[0-9]{1,9}$")]
        biases = Annotated[dict[token, float], Field(max_length=param.max_items)]
        return biases | None, Field(default=None, description=param.help)
    if param.several:
        one = Token if kind == tuple[int, ...] else StopText
        several = Annotated[list[one], Field(max_length=param.max_items, fail_fast=True)]  # type: ignore[valid-type]
        return several, Field(default_factory=list, description=param.help)
    if kind is bool:
        return bool, Field(default=False, description=param.help)
    (kind,) = [one for one in get_args(kind) if one is not type(None)] if type(None) in get_args(kind) else [kind]
    if kind is int:
        largest = param.le if "uint64" in param.tensors.values() else min(param.le or INT32, INT32)
        kind = Annotated[int, Field(ge=param.ge, gt=param.gt, le=largest)]
    elif kind is float:
        kind = Annotated[float, Field(ge=param.ge, gt=param.gt, le=param.le)]
    elif kind is str:
        kind = Annotated[str, Field(max_length=param.max_length)]
    return kind | None, Field(default=None, description=param.help)


def params_of(request: Strict, names: Iterable[str]) -> dict[str, Any]:
    """What a request says of parameters, as arguments of :class:`SamplingParams`."""
    given = {name: getattr(request, name) for name in names}
    values: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in given.items()}
    if values.get("logit_bias"):
        values["logit_bias"] = {int(token): value for token, value in values["logit_bias"].items()}
    return {name: value for name, value in values.items() if value is not None}


_SHARED = [name for name in PARAMS if name not in _SPELLED_OTHERWISE and name != "token_counts"]
_TEMPERATURE, _STOP = (_field_of(name)[0] for name in ("temperature", "stop"))
_OTHERWISE: dict[str, Any] = {
    "temperature": (
        _TEMPERATURE,
        Field(default=None, description="1 if not given, as OpenAI has it; 0 is greedy"),
    ),
    "stop": (StopText | _STOP | None, Field(default=None, description=PARAMS["stop"].help)),
}
_Shared: Any = create_model("_Shared", __base__=StructureFields, **fields_of(_SHARED) | _OTHERWISE)


class DecodingFields(_Shared):  # type: ignore[misc]  # its fields are rows of a table
    """The parameters that completions and chats share."""

    stream: bool = False
    return_tokens_as_token_ids: bool = Field(
        default=False, description="log-probabilities call tokens `token_id:` and their number, as vLLM does"
    )
    stream_options: StreamOptions | None = None
    user: str | None = Field(default=None, description="taken, and not used")
    metadata: Metadata | None = Field(default=None, description="taken, and not used")
    store: bool | None = Field(default=None, description="taken: nothing is kept")

    def sampling_params(self, counts: bool, **others: Any) -> SamplingParams:
        """The same for a client of ours.

        Args:
            counts: whether tokens are to be counted.
            others: parameters that completions and chats spell in different ways.

        Raises:
            InputError: parameters that exclude each other.
        """
        shared = params_of(self, _SHARED)
        if self.temperature is None and shared.get("beam_width", 1) == 1:
            shared["temperature"] = OPENAI_TEMPERATURE
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        structure = self.structure()
        if twice := ", ".join(2 * [*structure.keys() & shared.keys()]):  # as regex and guided_regex
            raise InputError("one structure of an answer", twice, "leave the others out", param="structured_outputs")
        return SamplingParams(**shared, **structure, **others, stop=stop, token_counts=counts)

    @property
    def counts_usage(self) -> bool:
        """Whether an answer is to say how many tokens it took."""
        return not self.stream or (self.stream_options is not None and self.stream_options.include_usage)
