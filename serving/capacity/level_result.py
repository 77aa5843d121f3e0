"""What a replica's clients got, and how busy it was: the figures of one level of load.

time_to_first_token    from sending a request to the first tokens of its answer
time_to_second_token   from these to the next
inter_token_latency    from the first response to the last, by the tokens after the first response
request_latency        from sending a request to the end of its answer
effective_…            the same: a simulated client sends in time
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from attendant.errors import ConfigError
from serving.capacity.replica import Simulation

WARM_UP = 0.1
"""Share of the requests, the first, that find a replica emptier than the others do."""
STATISTICS = ("avg", "p50", "p95", "p99", "max")
METRICS = ("time_to_first_token", "time_to_second_token", "inter_token_latency", "request_latency")
_EFFECTIVE = {"effective_time_to_first_token": "time_to_first_token", "effective_latency": "request_latency"}
_RATES = ("offered", "answered", "tokens", "refused", "busy", "running", "waiting")


class LatencyObjective(Protocol):
    """A latency that is not to be exceeded, as clients/load/analysis/slo.py reads it."""

    @property
    def metric(self) -> str:
        """One of those above."""

    @property
    def statistic(self) -> str:
        """``avg``, ``max``, or a percentile as ``p95``."""

    @property
    def limit_s(self) -> float:
        """The greatest value allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelResult:
    """One level of load on one replica.

    Attributes:
        offered: requests that came, a second.
        answered: requests that were answered to the end, a second.
        tokens: of their answers, a second.
        refused: share of the requests that got an error.
        seconds: metric → what it was for each request after the warm-up that was answered.
        busy: share of the time in which something was run.
        running: batch slots that held a sequence, on average.
        waiting: requests without a slot, on average.
    """

    offered: float
    answered: float
    tokens: float
    refused: float
    seconds: dict[str, NDArray[np.float64]]
    busy: float
    running: float
    waiting: float

    @classmethod
    def of(cls, simulation: Simulation) -> LevelResult:
        """The figures of a simulation that has ended."""
        requests, load = simulation.requests, simulation.load
        counted = requests[int(len(requests) * WARM_UP) :]
        answered = [one for one in counted if one.is_finished and not one.error]
        streamed = [one for one in answered if len(one.responses_s) > 1]
        first_s, last_s = counted[0].sent_s, counted[-1].sent_s
        span_s = max(last_s - first_s, 1e-9)
        ended = [
            one for one in requests if one.is_finished and not one.error and first_s < one.responses_s[-1] <= last_s
        ]
        return cls(
            offered=(len(counted) - 1) / span_s,
            answered=len(ended) / span_s,
            tokens=sum(sum(one.tokens) for one in ended) / span_s,
            refused=1 - len(answered) / len(counted),
            seconds={
                "time_to_first_token": np.array([one.responses_s[0] - one.sent_s for one in answered]),
                "time_to_second_token": np.array([one.responses_s[1] - one.responses_s[0] for one in streamed]),
                "inter_token_latency": np.array(
                    [(one.responses_s[-1] - one.responses_s[0]) / sum(one.tokens[1:]) for one in streamed]
                ),
                "request_latency": np.array([one.responses_s[-1] - one.sent_s for one in answered]),
            },
            busy=load.worked_s / load.seconds,
            running=load.running / load.seconds,
            waiting=load.waiting / load.seconds,
        )

    def statistic(self, metric: str, statistic: str) -> float:
        """Seconds; infinite where nothing was answered.

        Raises:
            ConfigError: a simulation has no such metric.
        """
        name = _EFFECTIVE.get(metric, metric)
        if name not in METRICS:
            raise ConfigError(f"a metric that is simulated, one of {[*METRICS, *_EFFECTIVE]}", repr(metric), "choose")
        values = self.seconds[name]
        if not values.size:
            return float("inf")
        if statistic in ("avg", "max"):
            return float(values.mean() if statistic == "avg" else values.max())
        return float(np.percentile(values, float(statistic.removeprefix("p"))))

    def missed(self, objectives: Sequence[LatencyObjective]) -> list[LatencyObjective]:
        """The objectives that do not hold."""
        return [one for one in objectives if self.statistic(one.metric, one.statistic) > one.limit_s]

    def meets(self, objectives: Sequence[LatencyObjective]) -> bool:
        """Whether no request was refused and every objective holds."""
        return self.refused == 0 and not self.missed(objectives)

    def to_json(self) -> dict[str, object]:
        """The figures as plain JSON values, times in seconds."""
        times = {
            metric: {statistic: self.statistic(metric, statistic) for statistic in STATISTICS}
            for metric in METRICS
            if self.seconds[metric].size
        }
        return {name: getattr(self, name) for name in _RATES} | times
