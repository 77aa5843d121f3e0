"""What a generative model answers: deltas as they come, and whole answers made of them.

Legend: T tokens, S positions of the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attendant.tensor_names import (
    ALIGNMENT,
    CANDIDATE,
    FINISH_REASON,
    INPUT_TOKENS,
    LOG_PROBS,
    OUTPUT_IDS,
    OUTPUT_TOKENS,
    SCORE,
    SOURCE_TEXTS,
    TEXT_OUTPUT,
    TOKEN_TEXTS,
    TOP_IDS,
    TOP_LOG_PROBS,
)

Array = NDArray[Any]
TopTokens = tuple[tuple[int, float], ...]
"""Tokens and their log-probabilities, most probable first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A part of an answer.

    Attributes:
        text: what it adds; empty while a character is not complete.
        finish_reason: empty until the last delta of this answer: ``stop`` where the model or a stop ended it,
            ``length`` at the limit.
        token_ids: the tokens that it is made of.
        candidate: the answer that it belongs to, from 0.
        logprobs: of each token, if asked for.
        top_logprobs: for each token the most probable ones, if asked for.
        score: of a beam, with the length penalty.
        input_tokens: how many tokens the input has, if asked for.
        output_tokens: how many this delta adds, if asked for.
        alignment: for each token the weights of the source's positions, float32 ``[T, S]``; only if asked for.
        token_texts: what each token adds to the text; only with an alignment.
        source_texts: what stands at each of the S positions; with the first delta of an alignment to a text.
    """

    text: str
    finish_reason: str = ""
    token_ids: tuple[int, ...] = ()
    candidate: int = 0
    logprobs: tuple[float, ...] = ()
    top_logprobs: tuple[TopTokens, ...] = ()
    score: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    alignment: Array | None = None
    token_texts: tuple[str, ...] = ()
    source_texts: tuple[str, ...] = ()

    @classmethod
    def of(cls, outputs: Mapping[str, Array]) -> Delta:
        """Read one response."""
        tops: tuple[TopTokens, ...] = ()
        if TOP_IDS in outputs:
            rows = zip(outputs[TOP_IDS][0].tolist(), outputs[TOP_LOG_PROBS][0].tolist(), strict=True)
            tops = tuple(tuple(zip(ids, values, strict=True)) for ids, values in rows)
        return cls(
            text=_read_text(outputs[TEXT_OUTPUT]),
            finish_reason=_read_text(outputs[FINISH_REASON]),
            token_ids=tuple(outputs[OUTPUT_IDS][0].tolist()),
            candidate=_read_number(outputs, CANDIDATE) or 0,
            logprobs=tuple(outputs[LOG_PROBS][0].tolist()) if LOG_PROBS in outputs else (),
            top_logprobs=tops,
            score=_read_number(outputs, SCORE),
            input_tokens=_read_number(outputs, INPUT_TOKENS),
            output_tokens=_read_number(outputs, OUTPUT_TOKENS),
            alignment=outputs[ALIGNMENT][0] if ALIGNMENT in outputs else None,
            token_texts=_read_texts(outputs, TOKEN_TEXTS),
            source_texts=_read_texts(outputs, SOURCE_TEXTS),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One whole answer; see :class:`Delta`.

    Attributes:
        text: of all deltas.
        finish_reason: ``stop`` or ``length``.
        token_ids: without an end token.
        logprobs: of each token, if asked for.
        top_logprobs: for each token the most probable ones, if asked for.
        score: of a beam, with the length penalty.
        input_tokens: how many tokens the input has, if asked for.
        output_tokens: how many the answer has, if asked for.
        alignment: float32 ``[T, S]``; only if asked for.
        token_texts, source_texts: what stands at its two sides.
    """

    text: str
    finish_reason: str
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...] = ()
    top_logprobs: tuple[TopTokens, ...] = ()
    score: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    alignment: Array | None = None
    token_texts: tuple[str, ...] = ()
    source_texts: tuple[str, ...] = ()


def whole_answers(deltas: Iterable[Delta]) -> list[Answer]:
    """The answers that deltas make, in the order of the candidates."""
    by_candidate: dict[int, list[Delta]] = {}
    for delta in deltas:
        by_candidate.setdefault(delta.candidate, []).append(delta)
    return [_merge(by_candidate[candidate]) for candidate in sorted(by_candidate)]


def _merge(deltas: list[Delta]) -> Answer:
    last = deltas[-1]
    alignments = [delta.alignment for delta in deltas if delta.alignment is not None]
    return Answer(
        text="".join(delta.text for delta in deltas),
        finish_reason=last.finish_reason,
        token_ids=tuple(token for delta in deltas for token in delta.token_ids),
        logprobs=tuple(value for delta in deltas for value in delta.logprobs),
        top_logprobs=tuple(top for delta in deltas for top in delta.top_logprobs),
        score=last.score,
        input_tokens=last.input_tokens,
        output_tokens=None if last.output_tokens is None else sum(delta.output_tokens or 0 for delta in deltas),
        alignment=np.concatenate(alignments) if alignments else None,
        token_texts=tuple(text for delta in deltas for text in delta.token_texts),
        source_texts=next((delta.source_texts for delta in deltas if delta.source_texts), ()),
    )


def _read_number(outputs: Mapping[str, Array], name: str) -> Any:
    return outputs[name].reshape(-1)[0].item() if name in outputs else None


def _read_text(array: Array) -> str:
    value: bytes = array.reshape(-1)[0]
    return value.decode()


def _read_texts(outputs: Mapping[str, Array], name: str) -> tuple[str, ...]:
    return tuple(text.decode() for text in outputs[name][0]) if name in outputs else ()
