"""The tokens of a model as llguidance asks for them: what each one says, and how a text that a guide forces is said.

llguidance's own reader of a ``tokenizer.json`` takes every added token of the form ``<…>`` for a special one, such as
Qwen's ``<tool_call>``, which is text; and forces what its tokenizer makes of a text, though that may say another one,
as where it composes characters.

Source: M. Moskal et al., llguidance, https://github.com/guidance-ai/llguidance, ``TokenizerWrapper``.
"""

from collections.abc import Sequence
from functools import lru_cache

from tokenizers import decoders

from attendant.tokenizer import Tokenizer, require_failure

_EXACT = ("ByteLevel", "ByteFallback")
MOST_BYTES = 128
"""Of a forced text, which is tokenized at each of its tokens: what comes later does not change the next."""
MOST_KEPT = 1024
"""Texts whose tokens are known: the rows of one request ask for the same one after another."""
_BEFORE = ("", "\n")
"""A blank that a tokenizer puts before every text is not in its midst: it is cut off with what stands before."""


class GuideVocabulary:
    """A tokenizer's tokens, those beyond its own included.

    Attributes:
        tokens: number → bytes.
        special_token_ids: those that no text is said with; an end token, whatever it says, ends the answer.
        bos_token_id, eos_token_id: none, and the first end token.
    """

    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer, size: int, end: Sequence[int]) -> None:
        """Read all tokens: some tenths of a second for thirty thousand.

        Args:
            tokenizer: of the model.
            size: how many tokens there are.
            end: tokens that end an answer.
        """
        self._library = tokenizer.library
        special = {number for number, one in self._library.get_added_tokens_decoder().items() if one.special}
        special.update(end)
        said = [tokenizer.token_bytes(token) for token in range(size)]
        self.special_token_ids = [token for token, text in enumerate(said) if token in special or not text]
        self.tokens = [text or f"<[{token}]>".encode() for token, text in enumerate(said)]
        self._unsaid = frozenset(self.special_token_ids)
        self._ids = {text: token for token, text in enumerate(said) if token not in self._unsaid}
        self._longest = max(map(len, self._ids), default=0)
        self.eos_token_id = end[0]
        self._said = lru_cache(MOST_KEPT)(self._say)

    def __call__(self, text: bytes) -> list[int]:
        """The tokens of a text's beginning, as far as it can be said: the tokenizer's, or the longest at each place."""
        return list(self._said(text[:MOST_BYTES].decode(errors="ignore")))

    def _say(self, beginning: str) -> list[int]:
        return self._encode(beginning) or self._spell(beginning.encode())

    def _encode(self, beginning: str) -> list[int]:
        text = beginning.encode()
        for before in _BEFORE:
            try:
                ids: list[int] = self._library.encode(before + beginning, add_special_tokens=False).ids
            except BaseException as error:  # a bare one: characters outside a vocabulary that has no token for them
                require_failure(error)
                return []
            if max(ids, default=0) >= len(self.tokens):  # of a vocabulary with gaps
                return []
            begin, missing = len(ids), len(text)
            while begin and missing > 0:
                begin -= 1
                missing -= len(self.tokens[ids[begin]])
            found = ids[begin:]
            if b"".join(self.tokens[token] for token in found) == text and self._unsaid.isdisjoint(found):
                return found
        return []

    def _spell(self, text: bytes) -> list[int]:
        found: list[int] = []
        while text:
            lengths = range(min(self._longest, len(text)), 0, -1)
            known = next((length for length in lengths if text[:length] in self._ids), 0)
            if not known:
                break
            found.append(self._ids[text[:known]])
            text = text[known:]
        return found


def says_exactly(tokenizer: Tokenizer) -> bool:
    """Whether a text is the bytes or the characters of its tokens, one behind the other."""
    decoder = tokenizer.library.decoder
    return isinstance(decoder, decoders.Fuse) or any(kind in str(decoder) for kind in _EXACT)
