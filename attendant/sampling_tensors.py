"""Sampling parameters ↔ the tensors of a Triton request, each with a batch of one in front.

What is at its default is not sent. A client writes tensors, a Triton model's body reads them; both by the same rows
(:mod:`attendant.sampling_params`).
"""

import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attendant.errors import InputError, of_param
from attendant.param import BYTES_OF_CHARACTER
from attendant.sampling_params import EARLY_STOPPING, PARAMS, STRUCTURES, SamplingParams, default_of, is_set
from attendant.signature import TensorSpec
from attendant.tensor_names import IDS_REQUEST, STREAM, TEXT_REQUEST
from attendant.text_bounds import too_long

Array = NDArray[Any]
Tensors = Mapping[str, Array]
_KINDS = {"json": "json_object", "json_schema": "json_schema", "regex": "regex", "grammar": "grammar"}
_KIND, _GUIDE = "guided_decoding_guide_type", "guided_decoding_guide"
_BIAS_IDS, _BIAS = "logit_bias_ids", "logit_bias"
_INVERTED = ("exclude_input_in_output",)  # the tensor says the opposite of the parameter


SPECS = {STREAM: TensorSpec(name=STREAM, dtype="bool", axes=(1,))} | {
    tensor: TensorSpec(name=tensor, dtype=dtype, axes=(f"{name}_values",) if param.several else (1,))
    for name, param in PARAMS.items()
    for tensor, dtype in param.tensors.items()
}
"""Every optional tensor of a request to a generative model, by name: ``stream``, and those of the parameters."""


def tensors_of(params: SamplingParams) -> dict[str, Array]:
    """The tensors of what differs from the defaults, and that tokens are to be streamed.

    Raises:
        InputError: a number is larger or smaller than its tensor can hold.
    """
    values: dict[str, Any] = {STREAM: True}
    for name in PARAMS:
        if is_set(params, name):
            values |= _values_of(name, getattr(params, name))
    return {name: _tensor(SPECS[name], value) for name, value in values.items()}


def _values_of(name: str, value: Any) -> dict[str, Any]:
    if name in STRUCTURES:
        kind = next(kind for kind, structure in _KINDS.items() if structure == name)
        return {_KIND: kind} if name == "json_object" else {_KIND: kind, _GUIDE: value}
    if name == "logit_bias":
        return {_BIAS_IDS: list(value), _BIAS: list(value.values())}
    if name == "early_stopping":
        value = EARLY_STOPPING.index(value)
    return {tensor: not value if tensor in _INVERTED else value for tensor in PARAMS[name].tensors}


def params_from_tensors(tensors: Tensors, explain: bool = False) -> SamplingParams:
    """How a request is to be decoded.

    Args:
        tensors: those that the client sent, others among them.
        explain: whether the request has the parameter ``explain``.

    Raises:
        InputError: a tensor has more than one element where one is meant, or a value is none that it can have.
    """
    for name, spec in ({spec.name: spec for spec in TEXT_REQUEST} | SPECS).items():
        if spec.axes == (1,) and name in tensors and tensors[name].size != 1:
            raise InputError(
                f"one element in {name!r}", str(tensors[name].size), "send one request for each text", param=name
            )
    values: dict[str, Any] = {}
    for name, param in PARAMS.items():
        sent = [tensors[tensor] for tensor in param.tensors if tensor in tensors]
        for tensor in sent:
            param.require_tensor(name, tensor)
        if sent and name not in STRUCTURES:
            values[name] = _value_of(name, sent, tensors)
    return SamplingParams(**values, **_structure(tensors), explain=explain)


def _value_of(name: str, sent: Sequence[Array], tensors: Tensors) -> Any:
    if name == "logit_bias":
        return _bias(tensors)
    if name == "early_stopping":
        return _chosen(dict(enumerate(EARLY_STOPPING)), name, _single(sent[0]))
    if name == "stop":
        return tuple(map(_text, sent[0].reshape(-1)))
    if PARAMS[name].several:
        return tuple(sent[0].reshape(-1).tolist())
    if isinstance(default_of(name), bool):
        return any(_single(tensors[one]) != (one in _INVERTED) for one in PARAMS[name].tensors if one in tensors)
    return _single(sent[0])


def prompt_tensors(prompt: str | Sequence[int]) -> dict[str, Array]:
    """A text, or the tokens of one.

    Raises:
        InputError: it is neither, or a token is larger than its tensor can hold.
    """
    (spec,) = TEXT_REQUEST if isinstance(prompt, str) else IDS_REQUEST
    if isinstance(prompt, str):
        return {spec.name: _tensor(spec, prompt)}
    is_list = isinstance(prompt, Iterable) and not isinstance(prompt, bytes | bytearray | memoryview | Mapping | Set)
    tokens: list[Any] = [*prompt] if is_list else []
    odd = [one for one in tokens if type(one) is bool or not isinstance(one, Integral)] if is_list else [prompt]
    if odd:
        found = f"a value of type {type(odd[0]).__name__}"
        raise InputError("a text, or a list of its tokens", found, "correct the prompt", param=spec.name)
    return {spec.name: _tensor(spec, tokens)}


def prompt_from_tensors(
    tensors: Tensors, most_tokens: int = sys.maxsize, most_characters: int = sys.maxsize
) -> str | list[int]:
    """What a text model is given: a text, or the tokens of one.

    Args:
        tensors: that the client sent.
        most_tokens: that the model takes.
        most_characters: of a text that may be so many tokens.

    Raises:
        InputError: neither or both were sent, or more than the model takes.
    """
    (text,), (ids,) = TEXT_REQUEST, IDS_REQUEST
    if (text.name in tensors) == (ids.name in tensors):
        found = "both" if text.name in tensors else "neither"
        raise InputError(f"{text.name!r} or {ids.name!r}", found, "send one of them")
    if text.name in tensors:
        sent = tensors[text.name].reshape(-1)[0]
        if len(sent) > BYTES_OF_CHARACTER * most_characters:
            with of_param(text.name):
                raise too_long(f"{len(sent)} bytes", most_tokens, most_characters)
        return _text(sent)
    if not 1 <= tensors[ids.name].size <= most_tokens:
        raise InputError(f"1 to {most_tokens} tokens", str(tensors[ids.name].size), "shorten the input", param=ids.name)
    token_ids: list[int] = tensors[ids.name].reshape(-1).tolist()
    return token_ids


def params_of_inputs(inputs: Iterable[str]) -> list[str]:
    """The parameters that a model takes, by the names of its inputs; none if it is no generative model."""
    offered = set(inputs)
    return [name for name, param in PARAMS.items() if offered.issuperset(param.tensors)]


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _single(array: Array) -> Any:
    return array.reshape(-1)[0].item()


def _chosen(choices: Mapping[Any, Any], name: str, value: Any) -> Any:
    if value not in choices:
        raise InputError(f"{name}, one of {list(choices)}", repr(value)[:100], f"correct {name}", param=name)
    return choices[value]


def _bias(tensors: Tensors) -> dict[int, float]:
    ids, values = (tensors.get(name, np.zeros(0)).reshape(-1) for name in (_BIAS_IDS, _BIAS))
    if ids.size != values.size:
        raise InputError(f"as many {_BIAS} as {_BIAS_IDS}", f"{values.size} and {ids.size}", "send both", param=_BIAS)
    return dict(zip(ids.tolist(), values.tolist(), strict=True))


def _structure(tensors: Tensors) -> dict[str, Any]:
    if _KIND not in tensors:
        if _GUIDE in tensors:
            raise InputError(f"a {_KIND} beside the guide", "none", f"send one of {list(_KINDS)}")
        return {}
    name = _chosen(_KINDS, _KIND, _text(tensors[_KIND].reshape(-1)[0]))
    if name == "json_object":
        return {name: True}
    return {name: _text(tensors[_GUIDE].reshape(-1)[0]) if _GUIDE in tensors else ""}


def _tensor(spec: TensorSpec, value: Any) -> Array:
    values: list[Any] = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    if spec.dtype == "string":
        try:
            return np.array([[text.encode() for text in values]], dtype=object)
        except UnicodeEncodeError as error:
            found = f"{error.object[error.start]!a} at {error.start}"
            raise InputError(
                f"{spec.name} of Unicode's characters", found, f"correct {spec.name}", param=spec.name
            ) from error
    dtype = np.dtype(spec.dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        beyond = [number for number in values if not info.min <= number <= info.max]
        if beyond:
            raise InputError(
                f"{spec.name} from {info.min} to {info.max}", str(beyond[0]), f"correct {spec.name}", param=spec.name
            )
    return np.array([values], dtype=dtype)
