"""Text to token ids and back through a ``tokenizer.json`` of the tokenizers library, refusing what it cannot say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as _Tokenizer

from models.errors import ArtefactError, InputError

TOKENIZER_NAME = "tokenizer.json"
UNKNOWN_TOKEN = "<unk>"  # noqa: S105  (a vocabulary entry, no password)


class Tokenizer:
    """A tokenizer whose answer never holds an unknown token."""

    def __init__(self, tokenizer: _Tokenizer) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True  # what a user writes is text, even "</s>"
        self._tokenizer = tokenizer
        self._unknown = tokenizer.token_to_id(UNKNOWN_TOKEN)

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Read a ``tokenizer.json``.

        Raises:
            ArtefactError: there is none, or the library cannot read it.
        """
        try:
            return cls(_Tokenizer.from_str(path.read_text(encoding="utf-8")))
        except Exception as error:  # the library raises bare Exception for every parse error
            raise ArtefactError(f"a readable tokenizer at {path}", str(error), "copy or export it again") from error

    def encode(self, text: str, longest: int) -> list[int]:
        """Token ids of a text.

        Raises:
            InputError: the text is empty, is longer than ``longest`` tokens, or has characters outside the vocabulary.
        """
        encoding = self._tokenizer.encode(text)
        if not encoding.ids:
            raise InputError("a text of at least one token", repr(text), "send some text")
        if self._unknown in encoding.ids:
            raise InputError(
                f"text of the model's vocabulary {self._alphabet()}",
                f"{self._strangers(text, encoding.ids, encoding.offsets)} in {_shorten(text)!r}",
                "remove or replace those characters",
            )
        if len(encoding.ids) > longest:
            raise InputError(
                f"at most {longest} tokens", f"{len(encoding.ids)} in {_shorten(text)!r}", "shorten the text"
            )
        return list(encoding.ids)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of token ids, without special tokens."""
        text: str = self._tokenizer.decode(list(token_ids), skip_special_tokens=True)
        return text

    def _strangers(self, text: str, ids: Sequence[int], offsets: Sequence[tuple[int, int]]) -> list[str]:
        spans = [span for token, span in zip(ids, offsets, strict=True) if token == self._unknown]
        return sorted({text[begin:end] for begin, end in spans})

    def _alphabet(self) -> str:
        words = [word for word in self._tokenizer.get_vocab() if not word.startswith("<")]
        return repr("".join(sorted(words))) if len(words) <= 100 else f"of {len(words)} entries"


def load_tokenizer(folder: Path, details: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer in an artefact's or checkpoint's folder.

    Args:
        folder: with the tokenizer's files.
        details: of the manifest or checkpoint.

    Raises:
        ArtefactError: there is none, or it cannot be read.
    """
    return Tokenizer.load(folder / TOKENIZER_NAME)


def _shorten(text: str, longest: int = 60) -> str:
    return text if len(text) <= longest else text[:longest] + "…"
