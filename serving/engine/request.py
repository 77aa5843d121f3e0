"""What a model that writes is asked and what it answers: a checked request, and pieces of text as they come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from attendant.errors import InputError
from attendant.sampling_params import SamplingParams
from serving.runtime.base import Array

FinishReason = Literal["", "stop", "length"]
TokenLogprobs = tuple[tuple[int, float], ...]
"""Tokens and their log-probabilities, most probable first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A question that has been checked and can be decoded.

    Attributes:
        prompt: the tokens that the decoder begins with: a prompt, or the start token.
        source: what the encoder reads, input name → array with a batch of one; empty without an encoder.
        max_tokens: longest answer, in tokens, without the end token.
        options: how it is decoded.
        seed: of its random numbers.
        text: of the prompt, if it is to stand before the answer.
        input_tokens: how many tokens the question has.
    """

    prompt: tuple[int, ...]
    source: Mapping[str, Array] = field(default_factory=dict)
    max_tokens: int
    options: SamplingParams = field(default_factory=SamplingParams)
    seed: int = 0
    text: str = ""
    input_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOutput:
    """A part of an answer.

    Attributes:
        text: what these tokens add; may be empty, as when a character takes several tokens.
        token_ids: what it is made of; an end token is not among them.
        candidate: which of the request's answers it belongs to.
        finish_reason: empty until the last piece of this answer: ``stop`` after an end token or a stop text,
            ``length`` at the limit.
        is_last: whether the request's answers are all complete.
        logprobs: of each token, if asked for.
        top_logprobs: for each token the most probable ones, if asked for.
        score: of a beam, with the length penalty.
        alignment: for each token the weights of the source's positions, float32 ``[T, S]``; only if asked for.
        token_texts: what each token adds to the text; only with an alignment.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    candidate: int = 0
    finish_reason: FinishReason = ""
    is_last: bool = False
    logprobs: tuple[float | None, ...] = ()
    top_logprobs: tuple[TokenLogprobs, ...] = ()
    score: float | None = None
    alignment: Array | None = None
    token_texts: tuple[str, ...] = ()


def checked_limit(max_tokens: int | None, longest: int, why: str) -> int:
    """How many tokens an answer may have.

    Args:
        max_tokens: as asked for; the longest if None.
        longest: possible.
        why: what the longest comes from.

    Raises:
        InputError: the limit is outside 1 … longest.
    """
    limit = longest if max_tokens is None else max_tokens
    if not 1 <= limit <= longest:
        raise InputError(
            f"max_tokens from 1 to {longest}, {why}",
            str(limit),
            "ask for fewer tokens, or leave max_tokens out",
            param="max_tokens",
        )
    return limit
