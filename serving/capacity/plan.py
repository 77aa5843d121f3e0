"""How many replicas a demand takes: the least number under whose share one replica keeps every promise.

at least n₀ = ⌈λ / μ⌉ of a demand of λ requests a second, where one replica saturates at μ; then the first n ≥ n₀
that refuses nobody and meets the objectives, found by doubling the distance from n₀ and halving it again
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

from attendant.errors import ConfigError
from serving.capacity.demand import Demand, rate_of
from serving.capacity.levels import Levels, Limit
from serving.capacity.outcome import Objective, Outcome
from serving.capacity.profile import Profile
from serving.engine.settings import EngineSettings

HOURS_A_MONTH = 730
_LEAST_REQUESTS = 100
_LEAST_LOAD = 0.02
"""Of what a replica can do: who is not in time at this load is not with more replicas either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The answer to a demand.

    Attributes:
        demand: that is met.
        objectives: that hold.
        replicas: that it takes.
        gpus: of them all.
        price_per_hour: of them all.
        limit: where one replica saturates.
        levels: replicas → what each of them does, for every number that was simulated.
    """

    demand: Demand
    objectives: tuple[Objective, ...]
    replicas: int
    gpus: int
    price_per_hour: float
    limit: Limit
    levels: dict[int, Outcome]

    @property
    def utilisation(self) -> float:
        """The demand as a share of what the replicas can do."""
        return self.levels[self.replicas].offered / self.limit.requests

    def to_json(self) -> dict[str, Any]:
        """Itself as plain JSON values; times in seconds, rates a second and a replica."""
        return {
            "rate": self.demand.rate,
            "replicas": self.replicas,
            "gpus": self.gpus,
            "price_per_hour": self.price_per_hour,
            "price_per_month": self.price_per_hour * HOURS_A_MONTH,
            "utilisation": self.utilisation,
            "saturation": {"requests": self.limit.requests, "tokens": self.limit.tokens},
            "levels": [
                {"replicas": replicas, "kept": self._is_kept(outcome), **outcome.to_json()}
                for replicas, outcome in sorted(self.levels.items())
            ],
        }

    def _is_kept(self, outcome: Outcome) -> bool:
        return outcome.refused == 0 and not outcome.misses(self.objectives)


def plan_of_files(
    profile: Path,
    demand: Path,
    read_objectives: Callable[[str], tuple[Objective, ...]],
    told: Callable[[str], None],
    *,
    rate: str | None = None,
    slo: str | None = None,
    requests: int = 10_000,
    seed: int = 0,
    **settings: int,
) -> Plan:
    """The plan for a profile and a demand in files.

    Args:
        profile: of one replica, JSON.
        demand: of the service, TOML or JSON.
        read_objectives: makes objectives of their text.
        told: gets a line after each level that was simulated.
        rate: instead of the demand's.
        slo: objectives instead of the demand's.
        requests: that are simulated at each level.
        seed: of arrivals and lengths.
        settings: of the engines, by the names of :class:`EngineSettings`.

    Raises:
        ConfigError: a file or a value is wrong, or no number of replicas meets the objectives.
    """
    asked = Demand.read(demand)
    asked = replace(
        asked, rate=asked.rate if rate is None else rate_of(_number(rate)), slo=asked.slo if slo is None else slo
    )
    if requests < _LEAST_REQUESTS:
        raise ConfigError(f"requests of at least {_LEAST_REQUESTS}", str(requests), "percentiles need many")
    engine = EngineSettings(**settings, prefix_cache_bytes=0)
    levels = Levels(profile=Profile.read(profile), settings=engine, demand=asked, requests=requests, seed=seed)
    return plan(levels, read_objectives(asked.slo), told)


def plan(levels: Levels, objectives: Sequence[Objective], told: Callable[[str], None] = lambda _: None) -> Plan:
    """The cheapest service that meets a demand, beside one with a replica less and one with a replica more.

    Args:
        levels: the demand, and what replicas take for their work.
        objectives: that hold for the requests of each replica.
        told: gets a line after each level that was simulated.

    Raises:
        ConfigError: no number of replicas meets the objectives.
    """
    search = _Search(levels, objectives, told)
    least = max(1, ceil(levels.demand.rate / levels.limit.requests))
    told(f"one replica saturates at {levels.limit.requests:.4g} requests/s")
    replicas = search.first_good(least)
    for beside in (replicas - 1, replicas + 1):
        if beside >= least:
            search.outcome(beside)
    demand, gpus = levels.demand, replicas * levels.profile.gpus
    price = gpus * demand.price_per_gpu_hour + replicas * demand.price_per_replica_hour
    return Plan(
        demand=demand,
        objectives=tuple(objectives),
        replicas=replicas,
        gpus=gpus,
        price_per_hour=price,
        limit=levels.limit,
        levels=search.known,
    )


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


class _Search:
    def __init__(self, levels: Levels, objectives: Sequence[Objective], told: Callable[[str], None]) -> None:
        self._levels, self._objectives, self._told = levels, objectives, told
        self.known: dict[int, Outcome] = {}

    def outcome(self, replicas: int) -> Outcome:
        if replicas not in self.known:
            self.known[replicas] = outcome = self._levels.under(replicas)
            self._told(f"{replicas} replica(s): {outcome.offered:.4g} requests/s each")
        return self.known[replicas]

    def first_good(self, least: int) -> int:
        bad, good, step = least - 1, least, 1
        while not self._is_good(good):
            self._require_hope(good)
            bad, good, step = good, good + step, 2 * step
        while good - bad > 1:
            middle = (bad + good) // 2
            bad, good = (bad, middle) if self._is_good(middle) else (middle, good)
        return good

    def _is_good(self, replicas: int) -> bool:
        outcome = self.outcome(replicas)
        return outcome.refused == 0 and not outcome.misses(self._objectives)

    def _require_hope(self, replicas: int) -> None:
        if self._levels.demand.rate / replicas > _LEAST_LOAD * self._levels.limit.requests:
            return
        outcome = self.outcome(replicas)
        wanted = [
            f"{one.metric} {one.statistic} of at most {one.limit_s:g} s" for one in outcome.misses(self._objectives)
        ]
        found = [f"{outcome.statistic(one.metric, one.statistic):.4g} s" for one in outcome.misses(self._objectives)]
        raise ConfigError(
            " and ".join(wanted) or "every request answered by an idle replica",
            " and ".join(found) or f"{outcome.refused:.1%} refused",
            "no number of replicas helps: promise less, or measure a faster machine",
        )
