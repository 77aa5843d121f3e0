"""What a replica's clients got, and how busy it was: the figures of one level of load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from serving.simulation.objectives import TIMES, Objective
from serving.simulation.replica import Simulated
from serving.simulation.sending import Heard

WARM_UP = 0.1
"""Share of the requests, the first, that find a replica emptier than the others do."""
RANKS = (50.0, 95.0, 99.0)
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One level of load on one replica.

    Attributes:
        offered: requests that came, a second.
        answered: requests that were answered to the end, a second.
        tokens: of their answers, a second.
        refused: share of the requests that got an error.
        seconds: figure (``ttft``, ``itl``, ``e2e``) → what it was for each request behind the warm-up.
        busy: share of the time in which something was run.
        active: slots that held a sequence, on average.
        waiting: requests without a slot, on average.
        rows: sequences in a run that decodes, on average.
    """

    offered: float
    answered: float
    tokens: float
    refused: float
    seconds: dict[str, Values]
    busy: float
    active: float
    waiting: float
    rows: float

    def percentile(self, figure: str, rank: float) -> float:
        """Seconds; infinite where nothing was answered."""
        values = self.seconds[figure]
        return float(np.percentile(values, rank)) if values.size else float("inf")

    def value(self, objective: Objective) -> float:
        """What an objective bounds."""
        if objective.figure == "refused":
            return self.refused
        return self.percentile(objective.figure, objective.rank)

    def misses(self, objectives: Sequence[Objective]) -> list[Objective]:
        """The objectives that do not hold."""
        return [objective for objective in objectives if not self.value(objective) < objective.below]

    def to_json(self) -> dict[str, object]:
        """The figures as plain JSON values; seconds."""
        plain: dict[str, object] = {
            name: getattr(self, name)
            for name in ("offered", "answered", "tokens", "refused", "busy", "active", "waiting", "rows")
        }
        for figure in TIMES:
            if self.seconds[figure].size:
                plain[figure] = {"avg": float(self.seconds[figure].mean())} | {
                    f"p{rank:g}": self.percentile(figure, rank) for rank in RANKS
                }
        return plain


def outcome_of(simulated: Simulated) -> Outcome:
    """The figures of a simulation."""
    heard, load, meter = simulated.heard, simulated.load, simulated.meter
    counted = heard[int(len(heard) * WARM_UP) :]
    answered = [one for one in counted if one.is_over and not one.error]
    first_s, last_s = counted[0].intended_s, counted[-1].intended_s
    span_s = max(last_s - first_s, 1e-9)
    ended_s = np.array([one.responses_s[-1] for one in heard if one.is_over and not one.error])
    meanwhile = float(((ended_s > first_s) & (ended_s <= last_s)).sum())
    return Outcome(
        offered=(len(counted) - 1) / span_s,
        answered=meanwhile / span_s,
        tokens=meanwhile / span_s * float(np.mean([sum(one.tokens) for one in answered] or [0])),
        refused=1 - len(answered) / len(counted),
        seconds={
            "ttft": np.array([one.responses_s[0] - one.intended_s for one in answered]),
            "itl": np.array([_between(one) for one in answered if sum(one.tokens[1:])]),
            "e2e": np.array([one.responses_s[-1] - one.intended_s for one in answered]),
        },
        busy=load.worked_s / load.seconds,
        active=load.active / load.seconds,
        waiting=load.waiting / load.seconds,
        rows=meter.tokens / max(meter.steps, 1),
    )


def _between(heard: Heard) -> float:
    return (heard.responses_s[-1] - heard.responses_s[0]) / sum(heard.tokens[1:])
