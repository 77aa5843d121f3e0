"""What a generative model answers: deltas as they come, and whole answers made of them.

Legend: T tokens, S positions of the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from attendant.alignments import join_alignments
from attendant.errors import ServerError
from attendant.tensor_names import (
    ALIGNMENT,
    CACHED_TOKENS,
    CANDIDATE,
    FINISH_REASON,
    INPUT_TOKENS,
    LOG_PROBS,
    OUTPUT_IDS,
    OUTPUT_TOKENS,
    PROMPT_TOKENS,
    SCORE,
    SOURCE_TEXTS,
    TEXT_OFFSETS,
    TEXT_OUTPUT,
    TOKEN_BYTES,
    TOKEN_TEXTS,
    TOP_BYTES,
    TOP_IDS,
    TOP_LOG_PROBS,
)

Array = NDArray[Any]
_LOG = "look at the server's log"
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
        token_bytes: what each token stands for, with log-probabilities, as far as the server says it.
        top_bytes: the same of the most probable ones.
        text_offsets: how many characters of the answer, and of its prompt if that is asked for, stand before each
            token, with log-probabilities, as far as the server says it.
        prompt_tokens: how many of the tokens, in front, are the prompt's; the first has a log-probability of NaN.
        score: of a beam, with the length penalty.
        input_tokens: how many tokens the input has, if asked for.
        cached_tokens: how many of them a prefix cache held, as far as the server says it.
        output_tokens: how many this delta adds, if asked for.
        alignment: for each token the weights of the source's positions, float32 ``[T, S]``; of a language model those
            of the prompt and of the answer's tokens before it. Only if asked for.
        token_texts: what each token adds to the text; only with an alignment.
        source_texts: what stands at each of the S positions, of a source or of a prompt; with the first delta of an
            alignment to a text.
    """

    text: str
    finish_reason: str = ""
    token_ids: tuple[int, ...] = ()
    candidate: int = 0
    logprobs: tuple[float, ...] = ()
    top_logprobs: tuple[TopTokens, ...] = ()
    token_bytes: tuple[bytes, ...] = ()
    top_bytes: tuple[tuple[bytes, ...], ...] = ()
    text_offsets: tuple[int, ...] = ()
    prompt_tokens: int = 0
    score: float | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    alignment: Array | None = None
    token_texts: tuple[str, ...] = ()
    source_texts: tuple[str, ...] = ()

    @classmethod
    def of(cls, outputs: Mapping[str, Array]) -> Delta:
        """Read one response.

        Raises:
            KeyError, TypeError, ValueError: a tensor is missing, or of another type, shape or range.
        """
        token_ids = _read_row(outputs[OUTPUT_IDS], "iu")
        if (prompt_tokens := _read_count(outputs, PROMPT_TOKENS) or 0) > len(token_ids):
            raise ValueError(f"{PROMPT_TOKENS} of at most {len(token_ids)} tokens; found {prompt_tokens}")
        tops: tuple[TopTokens, ...] = ()
        if TOP_IDS in outputs:
            ids_TK, values_TK = (
                _read_row(outputs[name], kinds, 3, len(token_ids))
                for name, kinds in ((TOP_IDS, "iu"), (TOP_LOG_PROBS, "f"))
            )
            rows = zip(ids_TK.tolist(), values_TK.tolist(), strict=True)
            tops = tuple(tuple(zip(ids, values, strict=True)) for ids, values in rows)
        token_texts = _read_texts(outputs, TOKEN_TEXTS)
        rows_expected = len(token_texts) if TOKEN_TEXTS in outputs else None
        return cls(
            text=_read_text(outputs[TEXT_OUTPUT]),
            finish_reason=_read_text(outputs[FINISH_REASON]),
            token_ids=tuple(token_ids.tolist()),
            candidate=_read_count(outputs, CANDIDATE) or 0,
            logprobs=tuple(_read_row(outputs[LOG_PROBS], "f", length=len(token_ids)).tolist())
            if LOG_PROBS in outputs
            else (),
            top_logprobs=tops,
            token_bytes=tuple(_read_row(outputs[TOKEN_BYTES], "O", length=len(token_ids)))
            if TOKEN_BYTES in outputs
            else (),
            top_bytes=_read_top_bytes(outputs[TOP_BYTES], tops) if TOP_BYTES in outputs else (),
            text_offsets=tuple(_read_row(outputs[TEXT_OFFSETS], "iu", length=len(token_ids)).tolist())
            if TEXT_OFFSETS in outputs
            else (),
            prompt_tokens=prompt_tokens,
            score=float(outputs[SCORE].reshape(-1)[0]) if SCORE in outputs else None,
            input_tokens=_read_count(outputs, INPUT_TOKENS),
            cached_tokens=_read_count(outputs, CACHED_TOKENS),
            output_tokens=_read_count(outputs, OUTPUT_TOKENS),
            alignment=_read_row(outputs[ALIGNMENT], "f", 3, rows_expected) if ALIGNMENT in outputs else None,
            token_texts=token_texts,
            source_texts=_read_texts(outputs, SOURCE_TEXTS),
        )

    def parts(self) -> tuple[bool, ...]:
        """Which parts its tokens have: log-probabilities, the most probable ones, and the bytes of both."""
        return tuple(map(bool, (self.logprobs, self.top_logprobs, self.token_bytes, self.top_bytes)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One whole answer; see :class:`Delta`.

    Attributes:
        text: of all deltas.
        finish_reason: ``stop`` or ``length``.
        token_ids: without an end token.
        logprobs: of each token, if asked for.
        top_logprobs: for each token the most probable ones, if asked for.
        token_bytes, top_bytes, text_offsets, prompt_tokens: as of a delta.
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
    token_bytes: tuple[bytes, ...] = ()
    top_bytes: tuple[tuple[bytes, ...], ...] = ()
    text_offsets: tuple[int, ...] = ()
    prompt_tokens: int = 0
    score: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    alignment: Array | None = None
    token_texts: tuple[str, ...] = ()
    source_texts: tuple[str, ...] = ()


def whole_answers(deltas: Iterable[Delta]) -> list[Answer]:
    """The answers that deltas make, in the order of the candidates.

    Raises:
        ServerError: there is none.
    """
    by_candidate: dict[int, list[Delta]] = {}
    for delta in deltas:
        by_candidate.setdefault(delta.candidate, []).append(delta)
    if not by_candidate:
        raise ServerError("an answer", "none", _LOG)
    return [_merge(by_candidate[candidate]) for candidate in sorted(by_candidate)]


def only_answer(deltas: Iterable[Delta]) -> Answer:
    """The whole answer of a request that has one.

    Raises:
        ServerError: there is none, or there are several.
    """
    answers = whole_answers(deltas)
    if len(answers) > 1:
        raise ServerError("one answer", str(len(answers)), _LOG)
    return answers[0]


def _merge(deltas: list[Delta]) -> Answer:
    last = deltas[-1]
    return Answer(
        text="".join(delta.text for delta in deltas),
        finish_reason=last.finish_reason,
        token_ids=tuple(token for delta in deltas for token in delta.token_ids),
        logprobs=tuple(value for delta in deltas for value in delta.logprobs),
        top_logprobs=tuple(top for delta in deltas for top in delta.top_logprobs),
        token_bytes=tuple(one for delta in deltas for one in delta.token_bytes),
        top_bytes=tuple(top for delta in deltas for top in delta.top_bytes),
        text_offsets=tuple(one for delta in deltas for one in delta.text_offsets),
        prompt_tokens=sum(delta.prompt_tokens for delta in deltas),
        score=last.score,
        input_tokens=last.input_tokens,
        output_tokens=None if last.output_tokens is None else sum(delta.output_tokens or 0 for delta in deltas),
        alignment=join_alignments([delta.alignment for delta in deltas if delta.alignment is not None]),
        token_texts=tuple(text for delta in deltas for text in delta.token_texts),
        source_texts=next((delta.source_texts for delta in deltas if delta.source_texts), ()),
    )


def _read_row(array: Array, kinds: str, ndim: int = 2, length: int | None = None) -> Array:
    if array.dtype.kind not in kinds or array.ndim != ndim or len(array) != 1 or length not in (None, len(array[0])):
        expected = "any" if length is None else length
        raise ValueError(f"one row of {expected} values in {ndim} axes; found {array.dtype} {list(array.shape)}")
    row: Array = array[0]
    return row


def _read_top_bytes(array: Array, tops: tuple[TopTokens, ...]) -> tuple[tuple[bytes, ...], ...]:
    rows = tuple(map(tuple, _read_row(array, "O", 3, len(tops))))
    if [len(row) for row in rows] != [len(top) for top in tops]:
        raise ValueError(f"{TOP_BYTES} of as many tokens as {TOP_IDS}; found {list(array.shape)}")
    return rows


def _read_count(outputs: Mapping[str, Array], name: str) -> int | None:
    if name not in outputs:
        return None
    (count,) = _read_row(outputs[name], "iu").tolist()
    if count < 0:
        raise ValueError(f"{name} of at least 0; found {count}")
    return int(count)


def _read_text(array: Array) -> str:
    value: bytes = array.reshape(-1)[0]
    return value.decode()


def _read_texts(outputs: Mapping[str, Array], name: str) -> tuple[str, ...]:
    return tuple(text.decode() for text in _read_row(outputs[name], "O")) if name in outputs else ()
