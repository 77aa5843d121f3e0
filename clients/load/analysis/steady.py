"""From when on a run is steady: MSER-5 says how much of its beginning to leave out, and whether the rest drifts.

    Y_j     mean of five consecutive latencies, j = 1 … m     d*  the d that minimises  Σ_{j>d} (Y_j − Ȳ_d)² / (m − d)²

The more is left out, the smaller the spread of the rest, but also the fewer values its mean rests on: the quotient
weighs the two. Where the best d lies in the second half, the latencies never settled: an overloaded server's queue, for
one. We take ranks of latencies, not latencies, so that one stall in the second half does not pass for a change.

The end is where the last request was sent: afterwards fewer and fewer are in flight.

Source: White, Cobb and Spratt, A comparison of five steady-state truncation heuristics for simulation, 2000.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clients.load.analysis.intervals import replicates
from clients.load.analysis.samples import samples
from clients.load.record import RequestRecord

FEWEST = 40
DRIFT, CERTAIN = 1.2, 99.0
"""The second half may be slower than the first by a fifth; a difference counts where it is certain to 99 %."""
_BATCH = 5
_LEAST_LEFT = 0.1  # of the batches: a few that lie close together by chance pass for a steady state


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyWindow:
    """The part of a run that its figures are of; seconds since the run began.

    Attributes:
        begins_s: scheduled time of the first request that counts.
        ends_s: when the last request was sent.
        unsteady: why no steady state was found; empty if one was.
        answered: how many requests were, after the warm-up; None if they were enough to look for it.
    """

    begins_s: float
    ends_s: float
    unsteady: str = ""
    answered: int | None = None

    @property
    def seconds(self) -> float:
        return self.ends_s - self.begins_s


def steady_window(records: Sequence[RequestRecord], warmup_s: float = 0.0) -> SteadyWindow:
    """The steady part of a run; all behind the warm-up where none is steady, with the reason.

    Args:
        records: of all requests.
        warmup_s: seconds at the beginning that the scenario itself leaves out.
    """
    records = [record for record in records if record.scheduled_s >= warmup_s]
    found, ends = samples(records), max((record.sent_s for record in records), default=warmup_s)
    whole = float(min((record.scheduled_s for record in records), default=warmup_s))
    if len(found) < FEWEST:
        reason = f"{len(found)} requests answered; {FEWEST} at least"
        return SteadyWindow(begins_s=whole, ends_s=ends, unsteady=reason, answered=len(found))
    left_out, batches = _left_out(found.effective_latency), len(found) // _BATCH
    if left_out > batches // 2:
        reason = f"latencies go on changing: the best beginning to leave out is {left_out / batches:.0%} of the run"
        return SteadyWindow(begins_s=whole, ends_s=ends, unsteady=reason)
    begins = float(found.scheduled_s[left_out * _BATCH]) if left_out else whole
    return SteadyWindow(begins_s=begins, ends_s=ends, unsteady=_drift(found.effective_latency[left_out * _BATCH :]))


def _left_out(latencies: NDArray[np.float64]) -> int:
    ranks = np.argsort(np.argsort(latencies, kind="stable"), kind="stable").astype(np.float64)
    batches = ranks[: len(ranks) // _BATCH * _BATCH].reshape(-1, _BATCH).mean(axis=1)
    backwards, counts = batches[::-1], np.arange(1, len(batches) + 1)
    sums, squares = np.cumsum(backwards), np.cumsum(backwards**2)
    spread = ((squares - sums**2 / counts) / counts**2)[::-1]
    return int(np.argmin(spread[: math.ceil((1 - _LEAST_LEFT) * len(batches))]))


def _drift(latencies: NDArray[np.float64]) -> str:
    middle = len(latencies) // 2
    logs = np.log(np.maximum(latencies, 1e-9))
    halves = [replicates(half, [None], seed)[:, 0] for seed, half in enumerate((logs[:middle], logs[middle:]))]
    times = float(np.exp(logs[middle:].mean() - logs[:middle].mean()))
    tail = (100 - CERTAIN) / 2
    low, high = np.percentile(halves[1] - halves[0], [tail, 100 - tail])
    if not (times > DRIFT and low > 0) and not (times < 1 / DRIFT and high < 0):
        return ""
    return f"latencies drift: those of the second half are {times:.2f} times those of the first"
