"""A Triton request's tensors → what is asked and how it is to be decoded.

The names are TensorRT-LLM's where it has the tensor, so that Triton's own OpenAI front end and other clients fit; each
tensor has a batch of one in front.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from attendant.errors import InputError
from attendant.tensor_names import INPUT_IDS, MAX_TOKENS, TEXT_INPUT, TEXT_OPTIONS, TEXT_REQUEST
from serving.engine.options import DecodingOptions, Guide
from serving.runtime.base import Array

Tensors = Mapping[str, Array]
_EARLY_STOPPING: dict[int, Any] = {0: False, 1: True, 2: "never"}
_KINDS: dict[str, Any] = {"json": "json", "json_schema": "json_schema", "regex": "regex"}


def _text(array: Array) -> str:
    value = array.reshape(-1)[0]
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _one_of(choices: Mapping[Any, Any], name: str) -> Callable[[Array], Any]:
    def chosen(array: Array) -> Any:
        value = _text(array) if array.dtype == object else array.reshape(-1)[0].item()
        if value not in choices:
            raise InputError(f"{name}, one of {list(choices)}", repr(value), f"correct {name}")
        return choices[value]

    return chosen


def _single(array: Array) -> Any:
    return array.reshape(-1)[0].item()


_SINGLE: dict[str, str] = {
    MAX_TOKENS: "max_tokens",
    "min_tokens": "min_tokens",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "typical_p": "typical_p",
    "repetition_penalty": "repetition_penalty",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "length_penalty": "length_penalty",
    "seed": "seed",
    "beam_width": "beam_width",
    "num_return_sequences": "candidates",
    "ignore_end": "ignore_end",
    "return_log_probs": "logprobs",
    "top_log_probs_count": "top_logprobs",
    "draft_tokens": "draft_tokens",
    "priority": "priority",
    "deadline_ms": "deadline_ms",
}
"""Tensor of one element → the option that it is."""
_OF_ONE_ELEMENT = [spec.name for spec in (*TEXT_REQUEST, *TEXT_OPTIONS) if spec.axes == (1,)]


def options_from_tensors(tensors: Tensors, explain: bool) -> DecodingOptions:
    """How a request is to be decoded.

    Args:
        tensors: those that the client sent.
        explain: whether it has the parameter ``explain``.

    Raises:
        InputError: a tensor has more than one element where one is meant, or a value is none that it can have.
    """
    for name in _OF_ONE_ELEMENT:
        if name in tensors and tensors[name].size != 1:
            raise InputError(f"one element in {name!r}", str(tensors[name].size), "send one request for each text")
    asked = {option: _single(tensors[name]) for name, option in _SINGLE.items() if name in tensors}
    if "early_stopping" in tensors:
        asked["early_stopping"] = _one_of(_EARLY_STOPPING, "early_stopping")(tensors["early_stopping"])
    if "exclude_input_in_output" in tensors:
        asked["echo"] = not _single(tensors["exclude_input_in_output"])
    if "stop_words" in tensors:
        asked["stop"] = tuple(_text(np.asarray([word])) for word in tensors["stop_words"].reshape(-1))
    if "stop_ids" in tensors:
        asked["stop_ids"] = tuple(tensors["stop_ids"].reshape(-1).tolist())
    return DecodingOptions(**asked, logit_bias=_bias(tensors), guide=_guide(tensors), explain=explain)


def subject_from_tensors(tensors: Tensors) -> Any:
    """What a text model is asked: a text, or the tokens of one.

    Raises:
        InputError: neither or both were sent.
    """
    if (TEXT_INPUT in tensors) == (INPUT_IDS in tensors):
        found = "both" if TEXT_INPUT in tensors else "neither"
        raise InputError(f"{TEXT_INPUT!r} or {INPUT_IDS!r}", found, "send one of them")
    return _text(tensors[TEXT_INPUT]) if TEXT_INPUT in tensors else tensors[INPUT_IDS].reshape(-1).tolist()


def _bias(tensors: Tensors) -> dict[int, float]:
    ids, values = (tensors.get(name, np.zeros(0)).reshape(-1) for name in ("logit_bias_ids", "logit_bias"))
    if ids.size != values.size:
        raise InputError("as many logit_bias as logit_bias_ids", f"{values.size} and {ids.size}", "send both")
    return dict(zip(ids.tolist(), values.tolist(), strict=True))


def _guide(tensors: Tensors) -> Guide | None:
    if "guided_decoding_guide_type" not in tensors:
        if "guided_decoding_guide" in tensors:
            raise InputError("a guided_decoding_guide_type beside the guide", "none", f"send one of {list(_KINDS)}")
        return None
    kind = _one_of(_KINDS, "guided_decoding_guide_type")(tensors["guided_decoding_guide_type"])
    text = _text(tensors["guided_decoding_guide"]) if "guided_decoding_guide" in tensors else ""
    return Guide(kind=kind, text=text)
