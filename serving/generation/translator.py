"""Text in, pieces of text out as they come: tokenizer, limits and greedy decoding of one artefact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from models.errors import InputError
from models.manifest import Manifest
from models.tokenization import TOKENIZER_NAME, Tokenizer
from serving.generation.greedy import greedy
from serving.runtime.ort_runner import ort_runners

FinishReason = Literal["", "stop", "length"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A text that has been checked and can be decoded.

    Attributes:
        source_ids: its token ids.
        max_tokens: longest answer, in tokens, without the end token.
    """

    source_ids: tuple[int, ...]
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of an answer.

    Attributes:
        text: what this token adds; may be empty.
        finish_reason: empty until the last piece, which has no text: ``stop`` after the end token, ``length`` at the
            limit.
    """

    text: str
    finish_reason: FinishReason = ""


class Translator:
    """One artefact of the task ``translate``, loaded."""

    def __init__(self, folder: Path, manifest: Manifest, threads: int = 1) -> None:
        """Load tokenizer and graphs.

        Raises:
            ArtefactError: a file is missing or not what the manifest says.
        """
        self._tokenizer = Tokenizer.load(folder / TOKENIZER_NAME)
        self._runners = ort_runners(folder, manifest, threads)
        self._start, self._end = int(manifest.details["start_token"]), int(manifest.details["end_token"])
        self._longest_source = int(manifest.details["max_source_length"])
        # The start token takes one position, and an answer of n tokens needs n steps to see its end.
        self._longest_answer = int(manifest.details["max_target_length"]) - 1

    def request(self, text: str, max_tokens: int | None = None) -> Request:
        """Check a text and a limit.

        Args:
            text: the source.
            max_tokens: longest answer; as long as the cache allows if not given.

        Raises:
            InputError: the text cannot be encoded, or the limit is outside 1 … capacity − 1.
        """
        limit = self._longest_answer if max_tokens is None else max_tokens
        if not 1 <= limit <= self._longest_answer:
            raise InputError(
                f"max_tokens from 1 to {self._longest_answer}, the cache's capacity less the start token",
                str(limit),
                "ask for fewer tokens, or leave max_tokens out",
            )
        return Request(source_ids=tuple(self._tokenizer.encode(text, self._longest_source)), max_tokens=limit)

    def stream(self, request: Request) -> Iterator[Piece]:
        """Decode a request token by token; the last piece carries the reason for the end."""
        tokens: list[int] = []
        said = ""
        for token in greedy(self._runners, request.source_ids, self._start, self._end, request.max_tokens + 1):
            if token == self._end or len(tokens) == request.max_tokens:
                break
            tokens.append(token)
            text = self._tokenizer.decode(tokens)
            yield Piece(text=text[len(said) :])
            said = text
        yield Piece(text="", finish_reason="stop" if token == self._end else "length")
