"""The bytes that one token stands for, as log-probabilities name it: exact also where it is a part of a character.

Source: A. Radford et al., GPT-2, ``encoder.py``, ``bytes_to_unicode``: the printable character of each byte.
"""

import json
import re
from functools import cache
from typing import Any

from tokenizers import Tokenizer

_BYTE = re.compile("<0x([0-9A-F]{2})>")
_LETTERS = re.compile("[a-z]+")


class TokenBytes:
    """The bytes of every token of a ``tokenizer.json``, in the midst of a text."""

    def __init__(self, library: Tokenizer) -> None:
        self._library = library
        added = library.get_added_tokens_decoder().items()
        self._special = {number: token.content for number, token in added if token.special}
        kinds = set(_types(json.loads(library.to_str()).get("decoder")))
        self._in_bytes, self._falls_back = "ByteLevel" in kinds, "ByteFallback" in kinds
        self._anchor = next((number for word, number in library.get_vocab().items() if _LETTERS.fullmatch(word)), None)
        self._known: dict[int, bytes] = {}

    def __call__(self, token: int) -> bytes:
        """A special token's are those of its name; a token outside the vocabulary has none."""
        if token not in self._known:
            self._known[token] = self._find(token)
        return self._known[token]

    def _find(self, token: int) -> bytes:
        if token in self._special:
            return self._special[token].encode()
        word = self._library.id_to_token(token)
        if word is None:
            return b""
        if self._in_bytes and all(character in _bytes_of_characters() for character in word):
            return bytes(_bytes_of_characters()[character] for character in word)
        if self._falls_back and (byte := _BYTE.fullmatch(word)):
            return bytes([int(byte[1], 16)])
        before = [] if self._anchor is None else [self._anchor]
        beginning: str = self._library.decode(before)
        text: str = self._library.decode([*before, token])
        return text.removeprefix(beginning).encode()


@cache
def _bytes_of_characters() -> dict[str, int]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + place): byte for place, byte in enumerate(others)}


def _types(decoder: Any) -> list[str]:
    if not isinstance(decoder, dict):
        return []
    return [str(decoder.get("type")), *(kind for part in decoder.get("decoders") or () for kind in _types(part))]
