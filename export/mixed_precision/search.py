"""Which operators have to stay in float32 for the drift to be within a budget: a search by measurement.

Operators stand in groups, first one for each kind, whose cost is the drift with that group alone rounded. Errors of
different operators are nearly independent, so that those of several add up by their squares:

    drift(S)² ≈ Σ_{g in S} cost(g)²

The costliest groups are kept until the others fit into the budget; the costliest of those kept is divided into halves
along the graph, each of which is measured, until single operators are left or the runs are spent. The outcome is
measured as a whole: where it does not hold, the sum is held to less, and where it does, cheap groups are given back.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from attendant.errors import ExportError
from export.mixed_precision.simulation import Simulation

MOST_RUNS = 160
_MARGIN = 0.9
"""Of the budget, what the sum of squares may fill: it is an estimate."""
_LEAST = 1e-9
Group = tuple[int, ...]
Groups = list[Group]
Costs = dict[Group, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The outcome of a search.

    Attributes:
        kept: gate → the drift of its group alone.
        sizes: gate → how many operators its group has.
        drift: of the graph without them rounded.
        drift_of_all: with every operator rounded.
        runs: how often the graph was measured.
    """

    kept: dict[int, float]
    sizes: dict[int, int] = field(default_factory=dict)
    drift: float
    drift_of_all: float
    runs: int

    def reason(self, gate: int) -> str:
        """Why the operator of a gate stays."""
        group = f"with {self.sizes[gate] - 1} others of its kind " if self.sizes[gate] > 1 else ""
        cost = self.kept[gate]
        return f"{group}alone {cost:.2g} σ of drift" if math.isfinite(cost) else f"{group}alone no finite answer"


@dataclass(frozen=True, slots=True)
class Kind:
    """What operators that stand in one group at first have in common.

    Attributes:
        operator: what they compute.
        overflows: whether each returns numbers that the narrower type has not, so that a half says no more than all.
    """

    operator: str
    overflows: bool = False


def search(simulation: Simulation, kinds: Callable[[], Sequence[Kind]], fixed: Sequence[int], budget: float) -> Found:
    """Find the operators to keep.

    Args:
        simulation: measures.
        kinds: tells the kind of each gate, if that is needed.
        fixed: gates that are not rounded whatever is found.
        budget: the largest drift.

    Raises:
        ExportError: even without any rounding the graph drifts beyond it.
    """
    free = [gate for gate in range(simulation.count) if gate not in set(fixed)]
    whole = simulation.drift(free)
    if whole <= budget:
        return Found(kept={}, drift=whole, drift_of_all=whole, runs=simulation.runs)
    kind_of, by_kind = kinds(), dict[Kind, list[int]]()
    for gate in free:
        by_kind.setdefault(kind_of[gate], []).append(gate)
    overflowing = {gate for gate in free if kind_of[gate].overflows}
    costs: Costs = {tuple(gates): simulation.drift(gates) for gates in by_kind.values()}
    kept, drift = _keep_costliest(simulation, costs, free, overflowing, budget)
    kept, drift = _give_back(simulation, costs, free, budget, (kept, drift))
    alone = {gate: costs[group] for group in kept for gate in group}
    sizes = {gate: len(group) for group in kept for gate in group}
    return Found(kept=alone, sizes=sizes, drift=drift, drift_of_all=whole, runs=simulation.runs)


def _keep_costliest(
    simulation: Simulation, costs: Costs, free: Sequence[int], overflowing: set[int], budget: float
) -> tuple[Groups, float]:
    estimate = _MARGIN * budget
    while True:
        _divide(simulation, costs, overflowing, estimate)
        kept = _beyond(costs, estimate)
        drift = _measure(simulation, free, kept)
        if drift <= budget:
            return kept, drift
        if estimate < _LEAST * budget:
            raise ExportError(
                f"a drift of at most {budget:g}", f"{drift:.3g} in float32 alone", "give a larger --budget"
            )
        # The sum of squares was too low by about this much.
        estimate *= max(0.5, _MARGIN * budget / drift) if simulation.runs < MOST_RUNS else 0.25


def _divide(simulation: Simulation, costs: Costs, overflowing: set[int], estimate: float) -> None:
    whole = {group for group in costs if math.isinf(costs[group]) and overflowing.issuperset(group)}
    while simulation.runs < MOST_RUNS * 3 // 4:
        divisible = [group for group in _beyond(costs, estimate) if len(group) > 1 and group not in whole]
        if not divisible:
            return
        group = max(divisible, key=lambda one: (costs[one], len(one)))
        middle = len(group) // 2
        del costs[group]
        for half in (group[:middle], group[middle:]):
            costs[half] = simulation.drift(half)


def _give_back(
    simulation: Simulation, costs: Costs, free: Sequence[int], budget: float, best: tuple[Groups, float]
) -> tuple[Groups, float]:
    kept, drift = best
    for group in sorted(kept, key=lambda one: costs[one]):
        if simulation.runs >= MOST_RUNS:
            break
        fewer = [one for one in kept if one != group]
        if (less := _measure(simulation, free, fewer)) <= budget:
            kept, drift = fewer, less
    return kept, drift


def _measure(simulation: Simulation, free: Sequence[int], kept: Groups) -> float:
    away = {gate for group in kept for gate in group}
    return simulation.drift([gate for gate in free if gate not in away])


def _beyond(costs: Costs, estimate: float) -> Groups:
    """The groups that do not fit, costliest first."""
    ordered = sorted(costs, key=lambda group: costs[group])
    total, fitting = 0.0, 0
    for group in ordered:
        total += costs[group] ** 2
        if math.sqrt(total) > estimate:
            break
        fitting += 1
    return ordered[fitting:][::-1]
