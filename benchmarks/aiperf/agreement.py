"""Whether two tools found the same: their rounds differ by no more than rounds of one tool do among themselves.

    s         1.4826 · median |round − median of rounds|: a standard deviation that one disturbed round does not change
    noise     √(s₁² + s₂²): of the difference of one round of each
    agree     |m₁ − m₂| ≤ 2 noise, m the medians: who has one round of each could not tell the tools apart
    noisy     2 noise is more than 15 % of the figure: agreement would mean nothing

A difference of less than a hundredth is agreement, however quiet the machine: a tool's own work takes time, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

NEGLIGIBLE, NOISY = 0.01, 0.15
_OF_A_NORMAL = 1.4826
Verdict = Literal["yes", "no", "too noisy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The medians of both tools' rounds, and the noise of the difference of two rounds."""

    aiperf: float
    ours: float
    noise: float

    @property
    def difference(self) -> float:
        return self.ours / self.aiperf - 1

    @property
    def verdict(self) -> Verdict:
        apart = abs(self.ours - self.aiperf)
        if apart <= NEGLIGIBLE * self.aiperf:
            return "yes"
        if 2 * self.noise > NOISY * self.aiperf:
            return "too noisy"
        return "yes" if apart <= 2 * self.noise else "no"


def agreement(aiperf: Sequence[float], ours: Sequence[float]) -> Agreement:
    """Compare the rounds of both tools, at least three of each."""

    def spread(rounds: Sequence[float]) -> float:
        middle = median(rounds)
        return _OF_A_NORMAL * median(abs(one - middle) for one in rounds)

    noise = (spread(aiperf) ** 2 + spread(ours) ** 2) ** 0.5
    return Agreement(aiperf=median(aiperf), ours=median(ours), noise=noise)
