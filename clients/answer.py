"""What a model that writes answers: pieces as they come, and whole answers made of them.

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
        finish_reason: empty until the last piece of this answer: ``stop`` where the model or a stop ended it,
            ``length`` at the limit.
        token_ids: the tokens that it is made of.
        candidate: which of the answers it belongs to, from 0.
        logprobs: of each token, if asked for.
        top_logprobs: for each token the most probable ones, if asked for.
        score: of a beam, with the length penalty.
        input_tokens: how many tokens the question has, if asked for.
        output_tokens: how many this piece adds, if asked for.
        alignment: for each token the weights of the source's positions, float32 ``[T, S]``; only if asked for.
        token_texts: what each token adds to the text; only with an alignment.
        source_texts: what stands at each of the S positions; with the first piece of an alignment to a text.
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
        return cls(
            text=_text(outputs[TEXT_OUTPUT]),
            finish_reason=_text(outputs[FINISH_REASON]),
            token_ids=tuple(outputs[OUTPUT_IDS][0].tolist()),
            candidate=_one(outputs, CANDIDATE) or 0,
            logprobs=tuple(outputs[LOG_PROBS][0].tolist()) if LOG_PROBS in outputs else (),
            top_logprobs=_top(outputs),
            score=_one(outputs, SCORE),
            input_tokens=_one(outputs, INPUT_TOKENS),
            output_tokens=_one(outputs, OUTPUT_TOKENS),
            alignment=outputs[ALIGNMENT][0] if ALIGNMENT in outputs else None,
            token_texts=_texts(outputs, TOKEN_TEXTS),
            source_texts=_texts(outputs, SOURCE_TEXTS),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One whole answer; see :class:`Delta`.

    Attributes:
        text: of all pieces.
        finish_reason: ``stop`` or ``length``.
        token_ids: without an end token.
        logprobs: of each token, if asked for.
        top_logprobs: for each token the most probable ones, if asked for.
        score: of a beam, with the length penalty.
        input_tokens: how many tokens the question has, if asked for.
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


def whole_answers(pieces: Iterable[Delta]) -> list[Answer]:
    """The answers that pieces make, in the order of the candidates."""
    said: dict[int, list[Delta]] = {}
    for piece in pieces:
        said.setdefault(piece.candidate, []).append(piece)
    return [_whole(said[candidate]) for candidate in sorted(said)]


def _whole(pieces: list[Delta]) -> Answer:
    last = pieces[-1]
    alignments = [piece.alignment for piece in pieces if piece.alignment is not None]
    return Answer(
        text="".join(piece.text for piece in pieces),
        finish_reason=last.finish_reason,
        token_ids=tuple(token for piece in pieces for token in piece.token_ids),
        logprobs=tuple(value for piece in pieces for value in piece.logprobs),
        top_logprobs=tuple(top for piece in pieces for top in piece.top_logprobs),
        score=last.score,
        input_tokens=last.input_tokens,
        output_tokens=None if last.output_tokens is None else sum(piece.output_tokens or 0 for piece in pieces),
        alignment=np.concatenate(alignments) if alignments else None,
        token_texts=tuple(text for piece in pieces for text in piece.token_texts),
        source_texts=next((piece.source_texts for piece in pieces if piece.source_texts), ()),
    )


def _top(outputs: Mapping[str, Array]) -> tuple[TopTokens, ...]:
    if TOP_IDS not in outputs:
        return ()
    rows = zip(outputs[TOP_IDS][0].tolist(), outputs[TOP_LOG_PROBS][0].tolist(), strict=True)
    return tuple(tuple(zip(ids, values, strict=True)) for ids, values in rows)


def _one(outputs: Mapping[str, Array], name: str) -> Any:
    return outputs[name].reshape(-1)[0].item() if name in outputs else None


def _text(array: Array) -> str:
    value: bytes = array.reshape(-1)[0]
    return value.decode()


def _texts(outputs: Mapping[str, Array], name: str) -> tuple[str, ...]:
    return tuple(text.decode() for text in outputs[name][0]) if name in outputs else ()
