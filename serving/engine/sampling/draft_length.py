"""How many guessed tokens a step checks: as many as bring tokens soonest, by what steps took and guesses were worth.

A sequence has shown how likely a guess is right where those before it were, p, and each guess makes the step longer. Of
k guesses p + p² + … + p^k are right on average. Where none is worth its time, none is checked; what is known fades
meanwhile, so that guesses are tried again.

Source: Y. Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", 2023, equation 1.
"""

from collections import deque
from collections.abc import Sequence
from statistics import median

KEPT = 9
"""Latest steps of each width, of which the median counts."""
TRIALS = 3
"""Steps with guesses, and without, before they are compared: the first of a width is slower than those behind it."""
AGAIN = 200
"""Steps of one kind alone after which the other is tried again."""
FADING = 0.95
"""What is left, after a step, of what was known of a sequence's guesses."""


class Odds:
    """How likely the next guess of one sequence is right."""

    def __init__(self) -> None:
        self._right = self._judged = 0.0

    @property
    def probability(self) -> float:
        """Half, as long as nothing is known."""
        return (self._right + 1) / (self._judged + 2)

    def judge(self, drafted: int, right: int) -> None:
        """A step has checked guesses, of which so many were right from the first on: none behind a wrong one counts."""
        self._right = FADING * self._right + right
        self._judged = FADING * self._judged + min(drafted, right + 1)


class DraftLength:
    """What steps have taken, by their rows and positions, and what follows of it."""

    def __init__(self) -> None:
        self._seconds: dict[int, dict[int, deque[float]]] = {}
        self._unseen: dict[tuple[int, bool], int] = {}

    def note(self, rows: int, width: int, seconds: float) -> None:
        """A step has taken so long.

        Args:
            rows: sequences in it.
            width: positions of each: one, and its guesses.
            seconds: of the run.
        """
        widths = self._seconds.setdefault(rows, {})
        widths.setdefault(width, deque(maxlen=KEPT)).append(seconds)
        other = rows, width == 1  # whether steps with guesses are the other kind
        self._unseen[rows, width > 1], self._unseen[other] = 0, self._unseen.get(other, 0) + 1
        if self._unseen[other] >= AGAIN:
            self._seconds[rows] = {one: taken for one, taken in widths.items() if (one > 1) == (width > 1)}
            self._unseen[other] = 0

    def best(self, rows: int, drafts: Sequence[tuple[int, float]]) -> int:
        """How many guesses of each sequence the next step should check at most.

        Args:
            rows: sequences in it.
            drafts: of each that has guesses, how many, and how likely one is right.
        """
        most = max((count for count, _ in drafts), default=0)
        widths = self._seconds.get(rows, {})
        if sum(len(taken) for width, taken in widths.items() if width > 1) < TRIALS:
            return most
        if len(widths.get(1, ())) < TRIALS:
            return 0
        medians = sorted((width, median(taken)) for width, taken in widths.items())

        def rate(length: int) -> float:
            right = sum(_expected(min(count, length), probability) for count, probability in drafts)
            return (rows + right) / _interpolate(medians, 1 + length)

        return max(range(most + 1), key=rate)


def _expected(count: int, probability: float) -> float:
    return sum(probability**place for place in range(1, count + 1))


def _interpolate(medians: Sequence[tuple[int, float]], width: int) -> float:
    # Between two widths that are known on the line, beyond the widest in proportion, which is the most it can take.
    below = max(one for one in medians if one[0] <= width)
    above = min((one for one in medians if one[0] >= width), default=None)
    if above is None:
        return below[1] * width / below[0]
    if above[0] == below[0]:
        return below[1]
    return below[1] + (above[1] - below[1]) * (width - below[0]) / (above[0] - below[0])
