"""What is sent, and when, drawn before a run: the same seed sends the same requests."""

import csv
import io
import math
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from attendant.errors import InputError
from attendant.records import parse_json, read_file
from clients.load.arrivals import (
    MOST_TIMES,
    ClosedLoop,
    Constant,
    Gamma,
    Poisson,
    Replay,
    Times,
    draw_times,
    require_drawable,
)
from clients.load.in_flight import PlannedRequest
from clients.load.scenario import Scenario
from clients.load.transport import PreparedWorkload

BLOCK = 1024
MOST_TRACE_BYTES, MOST_TRACE_LINES, MOST_TRACE_S = 1 << 28, 2_000_000, 1e7
_ARRIVALS, _MIX, INPUTS = range(3)  # a stream of random numbers each, so that one does not change another


def random_numbers(scenario: Scenario, purpose: int) -> np.random.Generator:
    return np.random.default_rng([scenario.seed, purpose])


def plan_requests(
    scenario: Scenario, prepared: Sequence[PreparedWorkload], names: Sequence[str] = ()
) -> Iterator[PlannedRequest]:
    """What each request is, without end: workloads by their weights, and their inputs in turn.

    Args:
        scenario: that says the weights and what is cancelled.
        prepared: the workloads.
        names: of the workloads of the first requests, as a trace has them; empty where any may come.
    """
    rng = random_numbers(scenario, _MIX)
    weights = np.array([workload.weight for workload in scenario.workloads])
    numbers = {workload.name: number for number, workload in enumerate(scenario.workloads)}
    turns = [count() for _ in prepared]
    traced = iter(names)
    while True:
        drawn = rng.choice(len(weights), BLOCK, p=weights / weights.sum()).tolist()
        for workload, chance in zip(drawn, rng.random(BLOCK).tolist(), strict=True):
            chosen = numbers.get(next(traced, ""), workload)
            cancel = scenario.workloads[chosen].cancel
            yield PlannedRequest(
                workload=chosen,
                input=next(turns[chosen]) % len(prepared[chosen].inputs),
                cancel=cancel is not None and chance < cancel.share,
            )


def draw_schedule(scenario: Scenario) -> tuple[Times, list[str]]:
    """When requests of an open loop are to be sent, in seconds, and the workloads that a trace names for them.

    Raises:
        InputError: a trace cannot be read, or names a workload that there is not.
        ConfigError: the arrivals have no end.
    """
    arrivals = scenario.arrivals
    assert not isinstance(arrivals, ClosedLoop), "its times depend on the answers"
    ends_s, number = _ends(scenario)
    names: list[str] = []
    if isinstance(arrivals, Replay):
        found, names = _read_schedule(arrivals, scenario)
        found = found if ends_s is None else found[found < ends_s]
    else:
        found = draw_times(arrivals, random_numbers(scenario, _ARRIVALS), ends_s, number)
    if scenario.requests is not None:
        found = found[: np.searchsorted(found, scenario.warmup_s) + scenario.requests]
    return found, names


def require_schedule(scenario: Scenario) -> None:
    """Make sure that the times of a run can be drawn, without drawing them; those of a trace are read later.

    Raises:
        ConfigError: they cannot.
    """
    if not isinstance(scenario.arrivals, ClosedLoop | Replay):
        require_drawable(scenario.arrivals, *_ends(scenario))


def _ends(scenario: Scenario) -> tuple[float | None, int | None]:
    """When the last request may be sent, and how many times are needed."""
    arrivals, number = scenario.arrivals, None
    if scenario.requests is not None and isinstance(arrivals, Constant | Poisson | Gamma):
        # More than come in the warm-up.
        number = scenario.requests + int(min(2 * arrivals.rate * scenario.warmup_s, MOST_TIMES)) + BLOCK
    return None if scenario.duration_s is None else scenario.warmup_s + scenario.duration_s, number


def _read_schedule(replay: Replay, scenario: Scenario) -> tuple[Times, list[str]]:
    path = Path(replay.trace)
    try:
        text = read_file(path, MOST_TRACE_BYTES).decode("utf-8-sig")
        lines = text.removesuffix("\n").split("\n")
        if len(lines) > MOST_TRACE_LINES:
            raise ValueError(f"more than {MOST_TRACE_LINES} lines")
        rows: list[Any] = (
            list(csv.DictReader(io.StringIO(text, newline="")))
            if path.suffix == ".csv"
            else [parse_json(line) for line in lines if line.strip()]
        )
        requests = sorted(
            ((float(row["scheduled_s"]), str(row.get("workload") or "")) for row in rows),
            key=lambda one: one[0],
        )
        if not all(math.isfinite(time_s) for time_s, _ in requests):
            raise ValueError("a scheduled_s that is no finite number")
        if requests and (lasts_s := (requests[-1][0] - requests[0][0]) / replay.speed) > MOST_TRACE_S:
            raise ValueError(f"{lasts_s:g} s, more than {MOST_TRACE_S:g}")
    except (OSError, ValueError, KeyError, TypeError, OverflowError, csv.Error) as error:
        raise InputError(
            f"a trace at {path}, .csv or .jsonl with scheduled_s and perhaps workload", repr(error), "correct it"
        ) from error
    known = {"", *(workload.name for workload in scenario.workloads)}
    unknown = {name for _, name in requests} - known
    if unknown or not requests:
        raise InputError(f"requests of the workloads {sorted(known)[1:]}", str(sorted(unknown) or "none"), "correct it")
    at_s = np.array([time_s for time_s, _ in requests])
    return (at_s - at_s[0]) / replay.speed, [name for _, name in requests]
