"""How many replicas a demand takes: the least number under whose share one replica meets every objective.

at least n₀ = ⌈λ / μ⌉ of a demand of λ requests a second, where one replica saturates at μ; then the first n ≥ n₀
that refuses no request and meets the objectives, found by doubling the distance from n₀ and halving it again
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

from attendant.errors import ConfigError
from serving.capacity.demand import Demand, parse_rate
from serving.capacity.level_result import LatencyObjective, LevelResult
from serving.capacity.levels import Levels, Saturation
from serving.capacity.profile import ReplicaProfile
from serving.engine.settings import EngineSettings

HOURS_A_MONTH = 730
_LEAST_REQUESTS, _MOST_REQUESTS = 100, 1_000_000
_LEAST_LOAD = 0.02
"""Of what a replica can do: an objective that is missed at this load is missed with more replicas too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPlan:
    """The answer to a demand.

    Attributes:
        demand: that is met.
        objectives: that hold.
        replicas: that it takes.
        gpus: of them all.
        price_per_hour: of them all.
        saturation: of one replica.
        levels: replicas → what each of them does, for every number that was simulated.
    """

    demand: Demand
    objectives: tuple[LatencyObjective, ...]
    replicas: int
    gpus: int
    price_per_hour: float
    saturation: Saturation
    levels: dict[int, LevelResult]

    @property
    def utilization(self) -> float:
        """The demand as a share of what the replicas can do."""
        return self.levels[self.replicas].offered / self.saturation.requests

    def to_json(self) -> dict[str, Any]:
        """Itself as plain JSON values; times in seconds, rates a second and a replica."""
        return {
            "rate": self.demand.rate,
            "replicas": self.replicas,
            "gpus": self.gpus,
            "price_per_hour": self.price_per_hour,
            "price_per_month": self.price_per_hour * HOURS_A_MONTH,
            "utilization": self.utilization,
            "saturation": {"requests": self.saturation.requests, "tokens": self.saturation.tokens},
            "levels": [
                {"replicas": replicas, "met": result.meets(self.objectives), **result.to_json()}
                for replicas, result in sorted(self.levels.items())
            ],
        }


def plan_of_files(
    profile: Path,
    demand: Path,
    read_objectives: Callable[[str], tuple[LatencyObjective, ...]],
    log: Callable[[str], object],
    *,
    rate: str | None = None,
    slo: str | None = None,
    requests: int = 10_000,
    seed: int = 0,
    exploratory: bool = False,
    **settings: int,
) -> CapacityPlan:
    """The plan for a profile and a demand in files.

    Args:
        profile: of one replica, JSON.
        demand: of the service, TOML or JSON.
        read_objectives: makes objectives of their text.
        log: gets a line after each level that was simulated.
        rate: instead of the demand's.
        slo: objectives instead of the demand's.
        requests: that are simulated at each level.
        seed: of arrivals and lengths.
        exploratory: whether a profile is taken whose fit is too poor to plan with.
        settings: of the engines, by the names of :class:`EngineSettings`.

    Raises:
        ConfigError: a file or a value is wrong, or no number of replicas meets the objectives.
    """
    service = Demand.read(demand)
    if rate is not None:
        service = replace(service, rate=parse_rate(rate))
    if slo is not None:
        service = replace(service, slo=slo)
    if not _LEAST_REQUESTS <= requests <= _MOST_REQUESTS:
        expected = f"requests from {_LEAST_REQUESTS} to {_MOST_REQUESTS}"
        raise ConfigError(expected, str(requests), "percentiles need many; all are kept")
    engine = EngineSettings(**settings, prefix_cache_bytes=0)
    replica = ReplicaProfile.read(profile)
    if replica.misfit and not exploratory:
        remedy = "or give --exploratory for a look"
        raise ConfigError(f"a profile in {profile} that fits what was measured", replica.misfit, remedy)
    levels = Levels(profile=replica, settings=engine, demand=service, requests=requests, seed=seed)
    return plan(levels, read_objectives(service.slo), log)


def plan(
    levels: Levels, objectives: Sequence[LatencyObjective], log: Callable[[str], object] = lambda _: None
) -> CapacityPlan:
    """The cheapest service that meets a demand, beside one with a replica less and one with a replica more.

    Args:
        levels: the demand, and what replicas take for their work.
        objectives: that hold for the requests of each replica.
        log: gets a line after each level that was simulated.

    Raises:
        ConfigError: no number of replicas meets the objectives.
    """
    results: dict[int, LevelResult] = {}

    def simulate(replicas: int) -> LevelResult:
        if replicas not in results:
            results[replicas] = result = levels.simulate(replicas)
            log(f"{replicas} replica(s): {result.offered:.4g} requests/s each")
        return results[replicas]

    demand, saturation = levels.demand, levels.saturation
    least = max(1, ceil(demand.rate / saturation.requests))
    log(f"one replica saturates at {saturation.requests:.4g} requests/s")
    low, high, step = least - 1, least, 1
    while not (result := simulate(high)).meets(objectives):
        if demand.rate / high <= _LEAST_LOAD * saturation.requests:
            raise _unreachable(result, objectives)
        low, high, step = high, high + step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if simulate(middle).meets(objectives) else (middle, high)
    for beside in (high - 1, high + 1):
        if beside >= least:
            simulate(beside)
    gpus = high * levels.profile.gpus
    return CapacityPlan(
        demand=demand,
        objectives=tuple(objectives),
        replicas=high,
        gpus=gpus,
        price_per_hour=gpus * demand.price_per_gpu_hour + high * demand.price_per_replica_hour,
        saturation=saturation,
        levels=results,
    )


def _unreachable(result: LevelResult, objectives: Sequence[LatencyObjective]) -> ConfigError:
    missed = result.missed(objectives)
    expected = [f"{one.metric} {one.statistic} of at most {one.limit_s:g} s" for one in missed]
    found = [f"{result.statistic(one.metric, one.statistic):.4g} s" for one in missed]
    return ConfigError(
        " and ".join(expected) or "every request answered by an idle replica",
        " and ".join(found) or f"{result.refused:.1%} refused",
        "no number of replicas helps: promise less, or measure a faster machine",
    )
