"""The load of a service: how many requests, how they come, how long they are, and which objectives they have.

rate of one of n replicas: each request goes to a replica by chance, λ/n; the gaps between its requests are sums of
geometrically many gaps of the whole stream, mean n
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attendant.errors import ConfigError
from attendant.printable import shown
from serving.capacity.config_file import MOST_NUMBER, build_config, read_config
from serving.capacity.lengths import Lengths, parse_lengths

LEAST_RATE = 1e-9
ARRIVALS = ("poisson", "gamma", "constant")
_RATE = re.compile(r"(\d+\.?\d*|\.\d+)(e[-+]?\d+)?(?:/(s|min|h|day))?", re.ASCII)
_SECONDS = {"s": 1, "min": 60, "h": 3600, "day": 86400}


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The demand of a whole service.

    Attributes:
        rate: requests a second.
        prompt: tokens of a prompt, or of a translator's source.
        answer: tokens of an answer.
        arrivals: ``poisson`` of many independent clients, ``gamma`` in bursts (shape below 1) or more even,
            ``constant`` at even distances.
        shape: of ``gamma``.
        stream: whether tokens are sent as they come.
        deadline_ms: of each request, on the server; none if not given.
        urgent: share of the requests that are of priority 0, before all others.
        slo: objectives, with commas between them, as ``ttft_p95<200ms,itl_p95<50ms`` (clients/load/analysis/slo.py).
        price_per_gpu_hour: money for a GPU and hour.
        price_per_replica_hour: money for a replica and hour, beside its GPUs.

    Raises:
        ConfigError: a value is out of its range.
    """

    rate: float
    prompt: Lengths
    answer: Lengths
    arrivals: str = "poisson"
    shape: float = 1.0
    stream: bool = True
    deadline_ms: int | None = None
    urgent: float = 0.0
    slo: str = ""
    price_per_gpu_hour: float = 0.0
    price_per_replica_hour: float = 0.0

    def __post_init__(self) -> None:
        if self.arrivals not in ARRIVALS:
            raise ConfigError(f"arrivals, one of {list(ARRIVALS)}", repr(self.arrivals), "correct arrivals")
        for name, least in (("rate", LEAST_RATE), ("shape", 1e-3), ("deadline_ms", 1), ("urgent", 0)):
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise ConfigError(f"{name} of at least {least:g}", str(value), f"correct {name}")
        if self.urgent > 1 or min(self.price_per_gpu_hour, self.price_per_replica_hour) < 0:
            raise ConfigError("urgent of at most 1 and prices of at least 0", repr(self), "correct them")

    @classmethod
    def read(cls, path: Path) -> Demand:
        """Read a TOML or JSON file.

        Raises:
            ConfigError: the file is missing, or a value is none that it can have.
        """
        values = read_config(path)
        for name in ("prompt", "answer"):
            if name not in values:
                continue
            if not isinstance(table := values[name], dict):
                example = "{kind = 'constant', tokens = 64}"
                raise ConfigError(f"a table {name!r} in {path}, as {example}", shown(table), "correct it")
            values[name] = parse_lengths(table, f"{name!r} of {path}")
        if "rate" in values:
            values["rate"] = parse_rate(values["rate"])
        demand: Demand = build_config(cls, values, str(path))
        return demand

    def draw_gaps(self, rng: np.random.Generator, count: int, replicas: int = 1) -> NDArray[np.float64]:
        """Seconds between the requests that one of the replicas gets, float64 ``[N]``."""
        gap_s = 1 / self.rate
        gaps = rng.geometric(1 / replicas, count)
        if self.arrivals == "constant":
            return gaps * gap_s
        shape = 1.0 if self.arrivals == "poisson" else self.shape
        return rng.gamma(shape * gaps, gap_s / shape)


def parse_rate(value: Any) -> float:
    """Requests a second, of a number or of a text as ``1000000/h`` or ``20``.

    Raises:
        ConfigError: it is neither, or beyond reason.
    """
    rate: float = nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        rate = value
    elif isinstance(value, str) and (match := _RATE.fullmatch(value.replace("_", ""))):
        rate = float(match[1] + (match[2] or "")) / _SECONDS[match[3] or "s"]
    if not LEAST_RATE <= rate <= MOST_NUMBER:
        remedy = f"correct rate, from {LEAST_RATE:g} to {MOST_NUMBER:g} a second"
        raise ConfigError("a rate as 20, 20/s, 300/min or 1000000/h", shown(value), remedy)
    return float(rate)
