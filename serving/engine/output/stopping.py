"""Texts that end an answer: found across pieces, and never told in part.

Text is held back for as long as it can be the beginning of a stop text. What is told and where it ends does not depend
on how the answer is cut into pieces. The tokens of a stopped answer are all that came, the one that completed the stop
included.

Source: D. E. Knuth, J. H. Morris, V. R. Pratt, "Fast pattern matching in strings", SIAM J. Comput. 6 (1977).
"""

from __future__ import annotations

from collections.abc import Sequence


class StopText:
    """The text of one answer up to the first stop text.

    The first is the one that ends first; of those that end together, the longest.

    Attributes:
        found: the stop text that has come; None before.
    """

    def __init__(self, stop: Sequence[str]) -> None:
        self._matches = [_Match(text) for text in stop]
        self._held = ""
        self.found: str | None = None

    def add(self, text: str) -> str:
        """What can be told now that one more piece has come; of what follows a stop text, nothing."""
        if self.found is not None:
            return ""
        known = self._held + text
        for end, character in enumerate(text, len(self._held) + 1):
            self.found = max((match.text for match in self._matches if match.add(character)), key=len, default=None)
            if self.found is not None:
                return known[: end - len(self.found)]
        told = len(known) - max((match.length for match in self._matches), default=0)
        self._held = known[told:]
        return known[:told]

    def rest(self) -> str:
        """What was held back, now that the answer has ended; nothing after a stop text."""
        held, self._held = self._held if self.found is None else "", ""
        return held


class _Match:
    # length: of the longest beginning of the text that ends here

    def __init__(self, text: str) -> None:
        self.text, self.length = text, 0
        self._shorter = [0, 0]  # for each length: the longest shorter beginning that ends here too
        for character in text[1:]:
            self._shorter.append(self._longer(self._shorter[-1], character))

    def add(self, character: str) -> bool:
        self.length = self._longer(self.length, character)
        return self.length == len(self.text)

    def _longer(self, length: int, character: str) -> int:
        while length and self.text[length] != character:
            length = self._shorter[length]
        return length + (self.text[length] == character)
