"""What an engine emits of an answer, as its tokens come."""

from dataclasses import dataclass
from typing import Literal

from serving.runtime.base import Array

FinishReason = Literal["", "stop", "length"]
TokenLogprobs = tuple[tuple[int, float], ...]
"""Tokens and their log-probabilities, most probable first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOutput:
    """A part of an answer.

    Attributes:
        text: what these tokens add; may be empty, as when a character takes several tokens.
        token_ids: what it is made of; an end token is among them only behind a prompt that was scored.
        candidate: which of the request's answers it belongs to.
        finish_reason: empty until the last part of this answer: ``stop`` after an end token or a stop text,
            ``length`` at the limit.
        is_last: whether the request's answers are all complete.
        logprobs: of each token, if requested.
        top_logprobs: for each token the most probable ones, if requested.
        token_bytes: what each token stands for, with log-probabilities.
        top_bytes: the same of the most probable ones.
        text_offsets: how many characters of the answer, and of its prompt if that is requested, stand before each.
        prompt_tokens: how many of the tokens, in front, are the prompt's.
        score: of a beam, with the length penalty.
        alignment: for each token the weights of the source's positions, float32 ``[T, S]``, or of all before it of a
            language model's; only if requested.
        token_texts: what each token adds to the text; only with an alignment.
        source_texts: what stands at each of the S positions; with the first part of an alignment to a text.
        input_tokens: how many tokens the request has, if requested.
        cached_tokens: how many of them the prefix cache held, beside that; none of a model without one.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    candidate: int = 0
    finish_reason: FinishReason = ""
    is_last: bool = False
    logprobs: tuple[float | None, ...] = ()
    top_logprobs: tuple[TokenLogprobs, ...] = ()
    token_bytes: tuple[bytes, ...] = ()
    top_bytes: tuple[tuple[bytes, ...], ...] = ()
    text_offsets: tuple[int, ...] = ()
    prompt_tokens: int = 0
    score: float | None = None
    alignment: Array | None = None
    token_texts: tuple[str, ...] = ()
    source_texts: tuple[str, ...] = ()
    input_tokens: int | None = None
    cached_tokens: int | None = None
