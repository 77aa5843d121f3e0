"""Decoding options → the tensors that ask for them; the inverse of serving/triton/backends/asking.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attendant.tensor_names import INPUT_IDS, MAX_TOKENS, PIXELS, STREAM, TEXT_INPUT
from serving.engine.options import DecodingOptions

Array = NDArray[Any]
_NAMES = {
    "max_tokens": (MAX_TOKENS, np.int32),
    "min_tokens": ("min_tokens", np.int32),
    "temperature": ("temperature", np.float32),
    "top_k": ("top_k", np.int32),
    "top_p": ("top_p", np.float32),
    "min_p": ("min_p", np.float32),
    "typical_p": ("typical_p", np.float32),
    "repetition_penalty": ("repetition_penalty", np.float32),
    "presence_penalty": ("presence_penalty", np.float32),
    "frequency_penalty": ("frequency_penalty", np.float32),
    "seed": ("seed", np.uint64),
    "candidates": ("num_return_sequences", np.int32),
    "beam_width": ("beam_width", np.int32),
    "length_penalty": ("length_penalty", np.float32),
    "ignore_end": ("ignore_end", np.bool_),
    "logprobs": ("return_log_probs", np.bool_),
    "top_logprobs": ("top_log_probs_count", np.int32),
    "draft_tokens": ("draft_tokens", np.int32),
    "priority": ("priority", np.int32),
    "deadline_ms": ("deadline_ms", np.int32),
}
_EARLY_STOPPING = {False: 0, True: 1, "never": 2}


def request_tensors(subject: Any, options: DecodingOptions, stream: bool) -> dict[str, Array]:
    """What travels: name → array with a batch of one.

    Args:
        subject: a text, token ids or an image.
        options: of the request; those that have their defaults do not travel.
        stream: whether it is answered as tokens come.
    """
    arrays = {**_subject(subject), STREAM: np.array([stream])}
    defaults = DecodingOptions()
    for option, (name, dtype) in _NAMES.items():
        value = getattr(options, option)
        if value != getattr(defaults, option):
            arrays[name] = np.array([value], dtype=dtype)
    if options.early_stopping is not False:
        arrays["early_stopping"] = np.array([_EARLY_STOPPING[options.early_stopping]], dtype=np.int32)
    if options.echo:
        arrays["exclude_input_in_output"] = np.array([False])
    if options.stop:
        arrays["stop_words"] = _texts(*options.stop)
    if options.logit_bias:
        arrays["logit_bias_ids"] = np.array(list(options.logit_bias), dtype=np.int32)
        arrays["logit_bias"] = np.array(list(options.logit_bias.values()), dtype=np.float32)
    if options.guide is not None:
        arrays["guided_decoding_guide_type"] = _texts(options.guide.kind)
        arrays["guided_decoding_guide"] = _texts(options.guide.text)
    return {name: array[None] for name, array in arrays.items()}


def _subject(subject: Any) -> dict[str, Array]:
    if isinstance(subject, str):
        return {TEXT_INPUT: _texts(subject)}
    if isinstance(subject, list):
        return {INPUT_IDS: np.array(subject, dtype=np.int32)}
    return {PIXELS: np.ascontiguousarray(subject)}


def _texts(*texts: str) -> Array:
    return np.array([text.encode() for text in texts], dtype=object)
