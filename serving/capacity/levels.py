"""A replica under its share of a demand, and at saturation: simulated with the same random numbers at every level."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np

from attendant.errors import ConfigError
from serving.capacity.demand import Demand
from serving.capacity.level_result import LevelResult
from serving.capacity.profile import ReplicaProfile
from serving.capacity.replica import Arrival, Replica
from serving.engine.settings import EngineSettings

_FILL = 0.2
"""Share of the requests that end before what a second brings is counted: the slots fill."""
_SATURATION_REQUESTS = 3000
MOST_SEED = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturation:
    """Where a replica saturates.

    Attributes:
        requests: that it answers a second.
        tokens: of answers a second.
    """

    requests: float
    tokens: float


@dataclass(frozen=True, kw_only=True)
class Levels:
    """The replicas of a service.

    Attributes:
        profile: what their work takes.
        settings: of their engines.
        demand: of the whole service.
        requests: that are simulated at each level.
        seed: of arrivals and lengths.

    Raises:
        ConfigError: the seed is negative or beyond reason, or the profile does not reach as far as slots, prompts and
            answers do.
    """

    profile: ReplicaProfile
    settings: EngineSettings
    demand: Demand
    requests: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= MOST_SEED:
            raise ConfigError(f"seed of 0 to {MOST_SEED}", str(self.seed), "correct seed")
        profile, demand, settings = self.profile, self.demand, self.settings
        longest = demand.answer.longest + (demand.prompt.longest if profile.encoder is None else 1)
        if profile.capacity is not None and longest > profile.capacity:
            expected = f"prompt and answer of at most {profile.capacity} positions together, the profile's capacity"
            raise ConfigError(expected, f"up to {longest}", "correct 'most' of prompt or answer")
        if profile.encoder is not None and demand.prompt.longest > profile.encoder.lengths[-1]:
            expected = f"sources of at most {profile.encoder.lengths[-1]}, as the profile's encoder table"
            raise ConfigError(expected, f"up to {demand.prompt.longest}", "correct 'most' of the prompt")
        positions = min(settings.max_prefill_tokens, (profile.capacity or 1) * settings.max_num_seqs)
        for name, table, size in (
            ("decode", profile.decode, settings.max_num_seqs),
            ("prompt", profile.prompt, positions),
            ("encoder", profile.encoder, settings.max_num_seqs),
        ):
            if table is not None and table.sizes[-1] < size:
                expected = f"sizes of the profile's {name!r} up to {size}, the slots or prompt tokens of a step"
                raise ConfigError(expected, f"up to {table.sizes[-1]}", "measure further, or plan with fewer")

    def simulate(self, replicas: int) -> LevelResult:
        """What one of so many replicas does under its share."""
        replica = Replica(self.profile, self.settings, self.demand.stream)
        return LevelResult.of(replica.run(list(self._draw_arrivals(self.requests, replicas))))

    @cached_property
    def saturation(self) -> Saturation:
        """The most that one replica answers, however many requests come: its slots are always full."""
        settings = replace(self.settings, max_queue_size=max(self.settings.max_queue_size, self.settings.max_num_seqs))
        replica = Replica(self.profile, settings, self.demand.stream)
        meter, ended = replica.engine.meter, list[tuple[float, int, int]]()
        arrivals = self._draw_arrivals(min(self.requests, _SATURATION_REQUESTS), 1)
        while batch := list(islice(arrivals, settings.max_num_seqs - meter.waiting)):
            for arrival in batch:
                replica.submit(replace(arrival, at_s=replica.clock.now_s, deadline_ms=None), replica.clock.now_s)
            replica.step()
            while meter.waiting >= settings.max_num_seqs:
                replica.step()
            ended.append((replica.clock.now_s, meter.finished, meter.tokens))
        began_s, finished, tokens = next(one for one in ended if one[1] >= _FILL * ended[-1][1])
        seconds = max(ended[-1][0] - began_s, 1e-9)
        return Saturation(requests=(ended[-1][1] - finished) / seconds, tokens=(ended[-1][2] - tokens) / seconds)

    def _draw_arrivals(self, count: int, replicas: int) -> Iterator[Arrival]:
        demand = self.demand
        lengths, times, urgent = np.random.default_rng(self.seed).spawn(3)
        prompts, answers = demand.prompt.draw(lengths, count), demand.answer.draw(lengths, count)
        at_s = np.cumsum(demand.draw_gaps(times, count, replicas))
        first = urgent.random(count) < demand.urgent
        for time_s, prompt, answer, is_urgent in zip(at_s, prompts, answers, first, strict=True):
            yield Arrival(
                at_s=float(time_s),
                prompt=int(prompt),
                answer=int(answer),
                priority=0 if is_urgent else 1,
                deadline_ms=demand.deadline_ms,
            )
