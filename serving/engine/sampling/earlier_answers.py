"""What earlier answers went on with: guesses for those that begin to say the same.

Questions come again, and so do the first lines of code, the forms of letters and what a greedy model says of them. A
guess is checked like any other (:mod:`serving.engine.sampling.lookup`); the answer is the same with it and without.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence

CONTEXT = 6
"""Tokens that must be the same before what follows them is a guess: fewer say little of another text."""
MOST_TOKENS = 2**15
"""Of the answers that are kept, the latest, some 10 MB with their index."""


class EarlierAnswers:
    """The latest answers of one model; a token costs the same however many there are."""

    def __init__(self, most_tokens: int = MOST_TOKENS) -> None:
        self._most_tokens, self._kept, self._next = most_tokens, 0, 0
        self._answers: OrderedDict[int, tuple[int, ...]] = OrderedDict()
        self._after: dict[tuple[int, ...], tuple[int, int]] = {}  # context → answer, and where what followed begins

    def keep(self, tokens: Sequence[int], answered: int) -> None:
        """Remember an answer, the last tokens of a text, with the context that it began behind."""
        answer = tuple(tokens[-min(answered + CONTEXT, self._most_tokens) :])
        self._answers[self._next] = answer
        self._after.update((context, (self._next, place)) for place, context in _contexts(answer))
        self._next, self._kept = self._next + 1, self._kept + len(answer)
        while self._kept > self._most_tokens:
            number, dropped = self._answers.popitem(last=False)
            self._kept -= len(dropped)
            for _, context in _contexts(dropped):
                if self._after.get(context, (-1, 0))[0] == number:
                    del self._after[context]

    def draft(self, tokens: Sequence[int], most: int) -> list[int]:
        """A guess at what follows these tokens, at most so many; none where no answer went on behind such a context."""
        found = self._after.get(tuple(tokens[-CONTEXT:]))
        if found is None:
            return []
        number, place = found
        return list(self._answers[number][place : place + most])


def _contexts(answer: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    return ((place, answer[place - CONTEXT : place]) for place in range(CONTEXT, len(answer)))
