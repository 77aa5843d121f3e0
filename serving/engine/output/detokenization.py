"""Tokens that come one by one, as text that comes piece by piece: whole characters only, and work that does not grow.

Only the tokens since the piece before last are decoded again: how a token reads can depend on its neighbours (a space
before it, the other bytes of its character), and on nothing further away.
"""

from __future__ import annotations

from attendant.tokenizer import TextTokenizer

_HALF_A_CHARACTER = "\ufffd"


class IncrementalDetokenizer:
    """The text of one answer as its tokens come."""

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer
        self._window: list[int] = []
        self._told = 0  # how many tokens of the window have been told

    def add(self, token: int) -> str:
        """What one more token adds; empty while the text ends within a character."""
        self._window.append(token)
        new = self.rest()
        if not new or new.endswith(_HALF_A_CHARACTER):
            return ""
        self._window, self._told = self._window[self._told :], len(self._window) - self._told
        return new

    def rest(self) -> str:
        """What was held back, as far as it can be read."""
        told = self._tokenizer.decode(self._window[: self._told]) if self._told else ""
        return self._tokenizer.decode(self._window)[len(told) :] if self._window else ""
