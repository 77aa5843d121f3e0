"""Prompt look-up: what followed the last tokens when they last stood in the text is a guess at what follows now.

A guess costs no model, and one step of the model checks all of it (speculative decoding). It pays where answers repeat
their prompts or themselves: summaries, edits, code. Three tokens are looked up before two and one: the longer what has
been seen before, the likelier it goes on the same way.

Source: A. Saxena, "Prompt Lookup Decoding", 2023; transformers' ``prompt_lookup_num_tokens``, which takes the earliest
occurrence where this takes the latest.
"""

from collections.abc import Sequence

from serving.engine.sampling.draft_length import Odds


class Lookup:
    """Every n-gram of one sequence so far, and where it last went on; a token costs the same however many there are.

    Attributes:
        odds: that its guesses are right.
    """

    def __init__(self, tokens: Sequence[int] = (), longest: int = 3) -> None:
        """Begin with a prompt.

        Args:
            tokens: of the prompt.
            longest: n-gram that is looked up; shorter ones are where it has not been seen.
        """
        self.odds = Odds()
        self._tokens: list[int] = []
        self._longest = longest
        self._after: dict[tuple[int, ...], int] = {}  # n-gram → where what followed it begins
        for token in tokens:
            self.add(token)

    def add(self, token: int) -> None:
        """The sequence has one more token."""
        # Only what something follows is in the index, so that the last tokens never find themselves.
        for ngram in self._last():
            self._after[ngram] = len(self._tokens)
        self._tokens.append(token)

    def draft(self, most: int) -> list[int]:
        """A guess at the next tokens, at most so many; none where even the last token is new."""
        for ngram in self._last():
            if ngram in self._after:
                begin = self._after[ngram]
                known = self._tokens[begin : begin + most]
                # What is guessed can itself be repeated: of a text that goes round, all of the next round is a guess.
                return [known[place % len(known)] for place in range(most)]
        return []

    def _last(self) -> list[tuple[int, ...]]:
        longest = min(self._longest, len(self._tokens))
        return [tuple(self._tokens[-size:]) for size in range(longest, 0, -1)]
