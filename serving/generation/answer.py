"""What a text model is asked and what it answers: a checked request, and pieces of text as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from models.errors import InputError
from models.tokenization import TextTokenizer
from serving.generation.detokenization import IncrementalDetokenizer
from serving.runtime.base import Array

FinishReason = Literal["", "stop", "length"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A text that has been checked and can be decoded.

    Attributes:
        token_ids: of the prompt or the source.
        max_tokens: longest answer, in tokens, without the end token.
        explain: whether each token comes with its alignment.
    """

    token_ids: tuple[int, ...]
    max_tokens: int
    explain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of an answer.

    Attributes:
        text: what this token adds; may be empty, as when a character takes several tokens.
        token_ids: the tokens that it is made of; the end token is not among them.
        finish_reason: empty until the last piece: ``stop`` after an end token, ``length`` at the limit.
        alignment: for each token the weights of the source's positions, float32 ``[T, S]``; only if asked for.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    finish_reason: FinishReason = ""
    alignment: Array | None = None


class StreamedModel(Protocol):
    """One artefact that answers with text: what it is asked is its own business."""

    def request(self, subject: Any, max_tokens: int | None = None, explain: bool = False, /) -> Any:
        """Check a question and a limit.

        Raises:
            InputError: the question cannot be answered or explained, or the limit is out of reach.
        """

    def stream(self, request: Any, /) -> Iterator[Piece]:
        """Decode a request token by token; the last piece carries the reason for the end."""


class TextModel(Protocol):
    """One artefact that answers texts with texts."""

    def request(self, text: str, max_tokens: int | None = None, explain: bool = False) -> Request:
        """Check a text and a limit.

        Raises:
            InputError: the text cannot be encoded, the answer not explained, or the limit is out of reach.
        """

    def stream(self, request: Request) -> Iterator[Piece]:
        """Decode a request token by token; the last piece carries the reason for the end."""


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
            f"max_tokens from 1 to {longest}, {why}", str(limit), "ask for fewer tokens, or leave max_tokens out"
        )
    return limit


def pieces(
    tokens: Iterable[int],
    end: frozenset[int],
    limit: int,
    tokenizer: TextTokenizer,
    alignment: Callable[[], Array] | None = None,
) -> Iterator[Piece]:
    """Turn tokens into pieces of text as they come.

    Text is held back while it ends within a character; the last piece gives whatever is left.

    Args:
        tokens: of the answer; an end token, or one more than the limit, ends it.
        end: the end tokens.
        limit: longest answer, in tokens.
        tokenizer: of the model.
        alignment: of the token that came last, ``[S]``, if it is asked for.
    """
    text = IncrementalDetokenizer(tokenizer)
    reason: FinishReason = "length"
    for count, token in enumerate(tokens):
        if token in end:
            reason = "stop"
        if token in end or count == limit:
            break
        weights = None if alignment is None else alignment()[None]
        yield Piece(text=text.add(token), token_ids=(token,), alignment=weights)
    nothing = None if alignment is None else alignment()[None][:0]
    yield Piece(text=text.rest(), finish_reason=reason, alignment=nothing)
