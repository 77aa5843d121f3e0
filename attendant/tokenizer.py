"""Text to token ids and back, by the files that lie beside a checkpoint's weights."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal, Protocol

from tokenizers import Encoding, Regex, pre_tokenizers
from tokenizers import Tokenizer as _Tokenizer
from tokenizers.models import BPE

from attendant.errors import ArtefactError, InputError
from attendant.text_bounds import most_characters, require_short, shortened
from attendant.token_bytes import TokenBytes
from attendant.tokenizer_growth import require_bounded_growth

TOKENIZER_NAME = "tokenizer.json"
MARIAN_FILES = ("source.spm", "target.spm", "vocab.json")
UNKNOWN_TOKEN = "<unk>"  # noqa: S105  (a vocabulary entry, no password)
Unknown = Literal["refuse", "keep"]


class RenderedText(str):
    """A prompt that a chat template has made: special tokens in it are meant as such, and none is added."""

    __slots__ = ()


class SpecialText(str):
    """A text whose special tokens are meant as such; those that the model expects are put around it."""

    __slots__ = ()


class TextTokenizer(Protocol):
    """What every tokenizer does."""

    @property
    def byte_tokens(self) -> frozenset[int]:
        """Tokens that are single bytes, of which a run is text as a whole or not at all."""

    def encode(self, text: str, longest: int) -> list[int]:
        """Token ids of a text, with the special tokens that the model expects around it.

        Those that stand in it are text, unless it is a :class:`RenderedText` or a :class:`SpecialText`.

        Raises:
            InputError: the text is empty, is longer than ``longest`` tokens, or cannot be said.
        """

    def offsets(self, text: str) -> list[int]:
        """How many characters of a text stand before each of its tokens, as :meth:`encode` found them.

        Empty where that is not known.
        """

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of token ids, without special tokens."""

    def token_bytes(self, token: int) -> bytes:
        """What one token stands for in the midst of a text, in UTF-8; it may be a part of a character."""

    def most_characters(self, longest: int) -> int:
        """How many characters a text of at most so many tokens may have."""


class Tokenizer:
    """A ``tokenizer.json`` of the tokenizers library."""

    def __init__(self, tokenizer: _Tokenizer, unknown: Unknown = "refuse") -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        if isinstance(tokenizer.model, BPE):
            tokenizer.model.dropout = None  # it is for training: one text has the same tokens each time
        # What a user writes is text, even "</s>". The flag alone does not do: a Unigram or WordLevel model finds the
        # token among its entries again, unless no part of a text that it is given holds one whole.
        tokenizer.encode_special_tokens = True
        self._own_pre_tokenizer = tokenizer.pre_tokenizer
        added = tokenizer.get_added_tokens_decoder()
        self._specials = {number: token.content for number, token in added.items() if token.special}
        divisible = [content for content in self._specials.values() if len(content) > 1]
        if divisible:
            first = "|".join(f"{re.escape(content[0])}(?={re.escape(content[1:])})" for content in divisible)
            split = pre_tokenizers.Split(Regex(first), "isolated")
            before = [tokenizer.pre_tokenizer] if tokenizer.pre_tokenizer is not None else []
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*before, split])
        self._tokenizer = tokenizer
        self._widest = max(map(len, tokenizer.get_vocab()), default=0)
        self._refused = tokenizer.token_to_id(UNKNOWN_TOKEN) if unknown == "refuse" else None

    @classmethod
    def load(cls, path: Path, unknown: Unknown = "refuse") -> Tokenizer:
        """Read a ``tokenizer.json``.

        Raises:
            ArtefactError: there is none, the library cannot read it, or it makes far more of a text than it is.
        """
        try:
            tokenizer = _Tokenizer.from_str(path.read_text(encoding="utf-8"))
            require_bounded_growth(tokenizer)
            return cls(tokenizer, unknown)
        except BaseException as error:  # the library raises bare Exception for every parse error
            require_failure(error)
            raise ArtefactError(f"a readable tokenizer at {path}", str(error), "copy or export it again") from error

    @property
    def library(self) -> _Tokenizer:
        """The library's own object, for what else builds on it."""
        return self._tokenizer

    def encode(self, text: str, longest: int) -> list[int]:
        """Token ids of a text, with the special tokens that the model expects around it.

        Raises:
            InputError: the text is empty, is longer than ``longest`` tokens, or has characters outside the vocabulary.
        """
        try:
            return self._encode(text, longest)
        except InputError:
            raise
        except BaseException as error:  # a bare one: characters outside a vocabulary that has no token for them
            require_failure(error)
            raise InputError(
                f"text of the model's vocabulary {self._alphabet()}",
                f"{error}, for {shortened(text)!r}",
                "remove or replace the characters that it lacks",
            ) from error

    def offsets(self, text: str) -> list[int]:
        """How many characters of a text stand before each of its tokens, as :meth:`encode` found them."""
        encoding = self._library_for(text).encode(text, add_special_tokens=not isinstance(text, RenderedText))
        places, end = [0], 0
        for begin, until in encoding.offsets:  # (0, 0) of a token that is put around the text
            # Blanks belong to what they stand before; several tokens of one character begin where it begins.
            follows = begin == until or (begin > end and not text[end:begin].strip())
            places.append(max(places[-1], end if follows else begin))
            end = max(end, until)
        return places[1:]

    def _encode(self, text: str, longest: int) -> list[int]:
        tokenizer = self._library_for(text)
        require_short(text, longest, self._widest, lambda beginning: len(tokenizer.encode(beginning).ids))
        if isinstance(text, RenderedText):
            rendered = tokenizer.encode(text, add_special_tokens=False)
            if not rendered.ids:
                raise empty_text(text)
            self._require_no_disguise(text, rendered)
            return within(list(rendered.ids), longest, text)
        encoding = tokenizer.encode(text)
        if all(encoding.special_tokens_mask):
            raise empty_text(text)
        if self._refused is not None and self._refused in encoding.ids:
            raise InputError(
                f"text of the model's vocabulary {self._alphabet()}",
                f"{self._strangers(text, encoding.ids, encoding.offsets)} in {shortened(text)!r}",
                "remove or replace those characters",
            )
        return within(list(encoding.ids), longest, text)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of token ids, without special tokens.

        Raises:
            ArtefactError: the library fails.
        """
        try:
            text: str = self._tokenizer.decode(list(token_ids), skip_special_tokens=True)
        except BaseException as error:
            require_failure(error)
            raise ArtefactError("a tokenizer that decodes its tokens", str(error), "use another tokenizer") from error
        return text

    def token_bytes(self, token: int) -> bytes:
        """What one token stands for in the midst of a text, in UTF-8; it may be a part of a character."""
        return self._token_bytes(token)

    @cached_property
    def byte_tokens(self) -> frozenset[int]:
        """Tokens that are single bytes, of which a run is text as a whole or not at all."""
        if self._tokenizer.decoder is None or "ByteFallback" not in str(self._tokenizer.decoder):
            return frozenset()
        found = (self._tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in range(256))
        return frozenset(token for token in found if token is not None)

    def most_characters(self, longest: int) -> int:
        """How many characters a text of at most so many tokens may have."""
        return most_characters(longest, self._widest)

    @cached_property
    def _unknown(self) -> int | None:
        # The token of whatever has none.
        model = json.loads(self._tokenizer.to_str())["model"]
        unknown = model.get("unk_token")
        return model.get("unk_id") if unknown is None else self._tokenizer.token_to_id(unknown)

    @cached_property
    def _token_bytes(self) -> TokenBytes:
        return TokenBytes(self._tokenizer)

    @cached_property
    def _with_specials(self) -> _Tokenizer:
        # A copy, made when first needed: few models chat, and a vocabulary is large.
        tokenizer = _Tokenizer.from_str(self._tokenizer.to_str())
        tokenizer.encode_special_tokens = False
        tokenizer.pre_tokenizer = self._own_pre_tokenizer
        return tokenizer

    def _library_for(self, text: str) -> _Tokenizer:
        return self._with_specials if isinstance(text, (RenderedText, SpecialText)) else self._tokenizer

    def _require_no_disguise(self, text: str, encoding: Encoding) -> None:
        # A normalizer may make a special token of other characters, as of full-width ones: who asks wrote them, and
        # the template did not.
        if self._tokenizer.normalizer is None:
            return
        for token, (begin, end) in zip(encoding.ids, encoding.offsets, strict=True):
            special, written = self._specials.get(token, ""), text[begin:end]
            if special and token != self._unknown and written.strip() != special.strip():
                raise InputError(f"text without {special!r}", repr(written), "remove or replace those characters")

    def _strangers(self, text: str, ids: Sequence[int], offsets: Sequence[tuple[int, int]]) -> list[str]:
        spans = [span for token, span in zip(ids, offsets, strict=True) if token == self._refused]
        return sorted({text[begin:end] for begin, end in spans})

    def _alphabet(self) -> str:
        words = [word for word in self._tokenizer.get_vocab() if not word.startswith("<")]
        return repr("".join(sorted(words))) if len(words) <= 100 else f"of {len(words)} entries"


def require_failure(error: BaseException) -> None:
    """Raise again what is no failure of the library, as Ctrl-C is."""
    # It is in Rust: where it panics, what it raises is no Exception.
    if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
        raise error


def within(token_ids: list[int], longest: int, text: str) -> list[int]:
    """The token ids, if they are not too many.

    Raises:
        InputError: they are more than ``longest``.
    """
    if len(token_ids) > longest:
        raise InputError(f"at most {longest} tokens", f"{len(token_ids)} in {shortened(text)!r}", "shorten the text")
    return token_ids


def empty_text(text: str) -> InputError:
    """The refusal of a text in which nothing is said."""
    return InputError("a text of at least one token", repr(shortened(text)), "send some text")
