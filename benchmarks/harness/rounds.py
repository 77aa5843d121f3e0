"""Alternating rounds: variants take turns, so that what else the machine does falls on all alike.

A sample is quiet where other processes used less than a tenth of the processors. Where fewer than two are, the three
quietest stand for all, marked with a question mark.
"""

import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from statistics import median, quantiles
from typing import Any, NamedTuple, TypeVar

import numpy as np

from benchmarks.harness.machine import QUIET, OtherProcesses, wait_until_quiet
from clients.load.analysis.intervals import replicates

NOTE = (
    "Samples count during which others used less than a tenth of the processors; where there are fewer than two, the "
    "three quietest, with a question mark."
)
_FEWEST, _QUIETEST = 2, 3
Call = Callable[[], Any]
Name = TypeVar("Name", bound=Hashable)


class Sample(NamedTuple):
    """A value, the share of the processors that others used meanwhile, and the number that the call returned, if so."""

    value: float
    others: float
    returned: int | None = None


class Estimate(NamedTuple):
    """A median, and the 95 % interval of medians of resampled rounds."""

    value: float
    low: float
    high: float

    def show(self, form: str = ".2f") -> str:
        return f"{self.value:{form}} ({self.low:{form}} to {self.high:{form}})"


def estimate(values: Sequence[float]) -> Estimate:
    """The median with its interval; resampled as blocks of consecutive rounds, which resemble each other."""
    series = np.asarray(values, dtype=np.float64)
    low, high = np.percentile(replicates(series, [50.0]), (2.5, 97.5))
    return Estimate(median(values), float(low), float(high))


def ratio(over: Sequence[float], under: Sequence[float]) -> Estimate:
    """Of pairs of one round each."""
    return estimate([one / other for one, other in zip(over, under, strict=True)])


def wall_seconds(call: Call) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def alternate(
    calls: Mapping[str, Call], rounds: int, clock: Callable[[Call], float] = wall_seconds, warm_up: int = 1
) -> dict[str, list[float]]:
    """What the clock says of each call in each round behind the warm-up."""
    values: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(warm_up):
        for call in calls.values():
            call()
    for _ in range(rounds):
        for name, call in calls.items():
            values[name].append(clock(call))
    return values


async def alternate_in_blocks(
    calls: Mapping[Name, Callable[[], Awaitable[Any]]],
    blocks: int,
    rounds: int,
    patience_s: float = 0.0,
    groups: Sequence[int | None] = (),
) -> dict[Name, list[Sample]]:
    """Seconds of each call in every round; how quiet the machine was is known of a block.

    Args:
        calls: take turns, every second round from the last to the first.
        blocks: behind one that warms up.
        rounds: in a block.
        patience_s: longest wait for a quiet machine before a block.
        groups: process groups of servers, which are not others.
    """
    samples: dict[Name, list[Sample]] = {name: [] for name in calls}
    for block in range(1 + blocks):
        wait_until_quiet(patience_s)
        others, timed = OtherProcesses(*groups), list[tuple[Name, float, int | None]]()
        for turn in range(rounds):
            for name in list(calls)[:: -1 if turn % 2 else 1]:
                began = time.perf_counter()
                returned = await calls[name]()
                timed.append((name, time.perf_counter() - began, returned if isinstance(returned, int) else None))
        share = others.share()
        for name, seconds, returned in timed if block else ():
            samples[name].append(Sample(seconds, share, returned))
    return samples


def quiet_values(samples: Sequence[Sequence[Any]]) -> list[Any]:
    """Values of the samples, value and share of others, that are quiet."""
    return [one[0] for one in samples if one[1] < QUIET]


def counted_values(samples: Sequence[Sequence[Any]]) -> tuple[list[Any], str]:
    """The values that count, and a mark if they are not quiet."""
    values = quiet_values(samples)
    if len(values) >= _FEWEST:
        return values, ""
    return [one[0] for one in sorted(samples, key=lambda sample: sample[1])[:_QUIETEST]], " ?"


def spread(samples: Sequence[Sequence[Any]]) -> tuple[float, float, float]:
    """First quartile, median and third quartile of the values that count."""
    values = counted_values(samples)[0]
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return low, middle, high


def show_spread(samples: Sequence[Sequence[Any]], scale: float = 1.0, form: str = ".1f") -> str:
    """Median and quartiles, with the mark."""
    low, middle, high = (scale * one for one in spread(samples))
    return f"{middle:{form}} ({low:{form}} … {high:{form}}){counted_values(samples)[1]}"
