"""How an answer is to be decoded → the tensors of a request, each with a batch of one in front."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attendant.errors import InputError
from attendant.signature import TensorSpec
from attendant.tensor_names import IDS_REQUEST, INPUT_TOKENS, OUTPUT_TOKENS, STREAM, TEXT_OPTIONS, TEXT_REQUEST
from clients.decoding import Decoding

_NAMES = {
    "max_tokens": "max_tokens",
    "min_tokens": "min_tokens",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "typical_p": "typical_p",
    "seed": "seed",
    "candidates": "num_return_sequences",
    "repetition_penalty": "repetition_penalty",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "beam_width": "beam_width",
    "length_penalty": "length_penalty",
    "stop": "stop_words",
    "stop_ids": "stop_ids",
    "ignore_end": "ignore_end",
    "logprobs": "return_log_probs",
    "top_logprobs": "top_log_probs_count",
    "draft_tokens": "draft_tokens",
    "priority": "priority",
    "deadline_ms": "deadline_ms",
}
_EARLY_STOPPING = {"no": 0, "yes": 1, "never": 2}
_SPECS = {spec.name: spec for spec in TEXT_OPTIONS}

Array = NDArray[Any]


def tensors_of(options: Decoding) -> dict[str, Array]:
    """The tensors of what was asked for, and of nothing else.

    Raises:
        InputError: a number is larger or smaller than its tensor can hold.
    """
    values: dict[str, Any] = {STREAM: True}
    values |= {name: getattr(options, said) for said, name in _NAMES.items() if _is_said(getattr(options, said))}
    if options.early_stopping is not None:
        values["early_stopping"] = _EARLY_STOPPING[options.early_stopping]
    if options.echo:
        values["exclude_input_in_output"] = False
    if options.token_counts:
        values |= {f"return_{INPUT_TOKENS}": True, f"return_{OUTPUT_TOKENS}": True}
    if options.logit_bias:
        values |= {"logit_bias_ids": list(options.logit_bias), "logit_bias": list(options.logit_bias.values())}
    values |= _guide(options)
    return {name: _tensor(_SPECS[name], value) for name, value in values.items()}


def question_tensors(question: str | Sequence[int]) -> dict[str, Array]:
    """A text, or the tokens of one.

    Raises:
        InputError: a token is larger than its tensor can hold.
    """
    (spec,) = TEXT_REQUEST if isinstance(question, str) else IDS_REQUEST
    return {spec.name: _tensor(spec, question)}


def option_names(inputs: Iterable[str]) -> list[str]:
    """The options that a model takes, by the names of its inputs; none if it is no model that writes."""
    offered = set(inputs)
    others = {
        "early_stopping": "early_stopping",
        "echo": "exclude_input_in_output",
        "token_counts": f"return_{INPUT_TOKENS}",
        "logit_bias": "logit_bias",
        "any_json": "guided_decoding_guide_type",
        "json_schema": "guided_decoding_guide",
        "regex": "guided_decoding_guide",
    }
    return [option for option, tensor in (_NAMES | others).items() if tensor in offered]


def _is_said(value: Any) -> bool:
    return value is not None and value is not False and value != ()


def _guide(options: Decoding) -> dict[str, str]:
    for kind, text in (("json_schema", options.json_schema), ("regex", options.regex)):
        if text is not None:
            return {"guided_decoding_guide_type": kind, "guided_decoding_guide": text}
    return {"guided_decoding_guide_type": "json"} if options.any_json else {}


def _tensor(spec: TensorSpec, value: Any) -> Array:
    values = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    if spec.dtype == "string":
        return np.array([[text.encode() for text in values]], dtype=object)
    dtype = np.dtype(spec.dtype)
    if dtype.kind in "iu":
        _require_held(spec, values, np.iinfo(dtype))
    return np.array([values], dtype=dtype)


def _require_held(spec: TensorSpec, values: list[Any], info: Any) -> None:
    beyond = [value for value in values if not info.min <= value <= info.max]
    if beyond:
        raise InputError(f"{spec.name} from {info.min} to {info.max}", str(beyond[0]), f"correct {spec.name}")
