"""Objectives as people write them: ``ttft_p95<200ms,itl_p95<50ms``, or with blanks."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from attendant.errors import ConfigError

METRICS = {
    "ttft": "effective_time_to_first_token",
    "ttst": "time_to_second_token",
    "itl": "inter_token_latency",
    "tpot": "inter_token_latency",
    "latency": "effective_latency",
    "sent_ttft": "time_to_first_token",
    "sent_latency": "request_latency",
}
"""What objectives call the metrics → their keys. What a caller waits counts from the scheduled time."""
_UNITS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_STATISTICS = ("avg", "max", "p50", "p75", "p90", "p95", "p99", "p99.9")
_FORM = re.compile(r"\s*([a-z_]+?)(?:_|\s+)([a-z0-9.]+)\s*(<=?)\s*([0-9.]+)\s*([a-zµ]*)\s*")
_EXAMPLE = "write it as ttft_p95<200ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A latency that is not to be exceeded.

    Attributes:
        metric: its key.
        statistic: ``avg``, ``max`` or a percentile as ``p95``.
        limit_s: the greatest value allowed, in seconds.
        text: as it was written.
    """

    metric: str
    statistic: str
    limit_s: float
    text: str


def limits_on(metric: str, objectives: Iterable[Objective]) -> list[Objective]:
    return [one for one in objectives if one.metric == metric]


def parse_objectives(text: str) -> tuple[Objective, ...]:
    """Read objectives, separated by commas.

    Raises:
        ConfigError: one cannot be read, names no metric, statistic or unit that there is, or is said twice.
    """
    found: dict[tuple[str, str], Objective] = {}
    for part in text.split(",") if text.strip() else ():
        matched = _FORM.fullmatch(part)
        if matched is None:
            raise ConfigError("metric_statistic<limit", repr(part.strip()), _EXAMPLE)
        name, statistic, sign, number, unit = matched.groups()
        _require_one_of("metric", name, METRICS)
        _require_one_of("statistic", statistic, _STATISTICS)
        _require_one_of("unit", unit, _UNITS)
        try:
            limit_s = float(number) * _UNITS[unit]
        except ValueError as error:
            raise ConfigError("a number before the unit", repr(number), _EXAMPLE) from error
        if limit_s <= 0:
            raise ConfigError("a limit above 0", repr(part.strip()), _EXAMPLE)
        metric = METRICS[name]
        if (metric, statistic) in found:
            raise ConfigError("one limit for each statistic", f"two of {metric} {statistic}", "leave one out")
        written = f"{name}_{statistic}{sign}{number}{unit}"
        found[metric, statistic] = Objective(metric=metric, statistic=statistic, limit_s=limit_s, text=written)
    return tuple(found.values())


def _require_one_of(what: str, found: str, known: Collection[str]) -> None:
    if found not in known:
        raise ConfigError(f"a {what} among {', '.join(known)}", repr(found), _EXAMPLE)
