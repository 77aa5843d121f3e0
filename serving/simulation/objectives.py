"""What a service promises, as text and as a bound: ``ttft_p95<200ms,itl_p95<50ms``.

ttft      from sending a request to the first tokens of its answer
itl       between two tokens of an answer: from its first response to its last, by the tokens after the first response
e2e       from sending a request to the end of its answer
refused   share of the requests that got no answer, because too many waited or their deadline passed: ``refused<1%``
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from models.errors import ConfigError

TIMES = ("ttft", "itl", "e2e")
_TIME = re.compile(rf"({'|'.join(TIMES)})_p(\d+(?:\.\d+)?)<(\d+(?:\.\d+)?)(us|ms|s)")
_SHARE = re.compile(r"refused<(\d+(?:\.\d+)?)%")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """One bound.

    Attributes:
        figure: ``ttft``, ``itl``, ``e2e`` or ``refused``.
        rank: of the percentile; 0 of a share.
        below: seconds, or a share.
    """

    figure: str
    rank: float
    below: float

    def __str__(self) -> str:
        if self.figure == "refused":
            return f"refused<{100 * self.below:g}%"
        return f"{self.figure}_p{self.rank:g}<{1e3 * self.below:g}ms"


def objectives_of(text: str) -> tuple[Objective, ...]:
    """The objectives in a text, with commas between them; none of an empty one.

    Raises:
        ConfigError: one cannot be read.
    """
    return tuple(_objective(part) for part in re.sub(r"\s", "", text).split(",") if part)


def _objective(part: str) -> Objective:
    if share := _SHARE.fullmatch(part):
        return Objective(figure="refused", rank=0, below=float(share[1]) / 100)
    if (time := _TIME.fullmatch(part)) and 0 < float(time[2]) < 100:
        return Objective(figure=time[1], rank=float(time[2]), below=float(time[3]) * _SECONDS[time[4]])
    raise ConfigError("objectives as ttft_p95<200ms, itl_p99<50ms, e2e_p95<2s or refused<1%", repr(part), "correct it")
