"""What a way to serve would do, simulated: the highest rate within objectives, or a latency at the demand's rate."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from clients.load.analysis.slo import METRICS
from serving.capacity.demand import Demand
from serving.capacity.level_result import LatencyObjective
from serving.capacity.levels import Levels
from serving.capacity.profile import ReplicaProfile
from serving.capacity.tuning.search_space import Candidate
from serving.engine.settings import EngineSettings

Goal = Literal["throughput", "ttft", "latency"]
STATISTIC = "p95"
_HALVINGS = 6
"""Of the rates up to saturation: the highest that keeps the objectives is known to 2 % of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningTask:
    """What is looked for.

    Attributes:
        goal: the highest rate, or the lowest 95th percentile at the demand's rate.
        demand: what is asked; for the highest rate, its own says nothing.
        objectives: that must hold.
        requests: that are simulated of each.
        seed: of lengths and arrivals.
    """

    goal: Goal
    demand: Demand
    objectives: Sequence[LatencyObjective] = ()
    requests: int = 1000
    seed: int = 0

    @property
    def metric(self) -> str:
        """Of a latency."""
        return METRICS[self.goal]

    def is_better(self, value: float, other: float) -> bool:
        """Whether a figure of the goal is the better one."""
        return value > other if self.goal == "throughput" else value < other


def predict(task: TuningTask, candidate: Candidate, profile: ReplicaProfile, least: float = 0.0) -> float:
    """The figure of the goal: requests a second, or seconds; infinitely bad where the objectives cannot be kept.

    Args:
        task: what is looked for.
        candidate: the way to serve.
        profile: of a replica with as many threads.
        least: a rate that is of no interest: where saturation is below it, it alone is said.

    Raises:
        ConfigError: the profile does not reach as far.
    """
    settings = candidate.engine(EngineSettings(prefix_cache_bytes=0))
    levels = Levels(profile=profile, settings=settings, demand=task.demand, requests=task.requests, seed=task.seed)
    if task.goal != "throughput":
        result = levels.simulate(candidate.instances)
        return result.statistic(task.metric, STATISTIC) if result.meets(task.objectives) else float("inf")
    highest = candidate.instances * levels.saturation.requests
    if not task.objectives or highest <= least:
        return highest
    low, high = 0.0, highest
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        at_rate = replace(levels, demand=replace(task.demand, rate=middle))
        low, high = (middle, high) if at_rate.simulate(candidate.instances).meets(task.objectives) else (low, middle)
    return low
