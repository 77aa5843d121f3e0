"""What comes back in a second: counted in slices of the steady window, so that an interval can be stated."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clients.load.analysis.intervals import intervals
from clients.load.analysis.samples import LatencySamples, samples
from clients.load.analysis.slo import Objective
from clients.load.analysis.steady import SteadyWindow
from clients.load.record import RequestOutcome, RequestRecord

SLICES = 60
_READ = (RequestOutcome.OK, RequestOutcome.CANCELLED)  # a token that came was read, even by one who then left
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicedRate:
    """A rate.

    Attributes:
        unit: what is counted, a second.
        value: of the whole window.
        per_slice: of each of its equal slices.
        intervals: 95 % interval; None of a window that is too short.
    """

    unit: str
    value: float
    per_slice: Values
    intervals: tuple[float, float] | None


def rates(
    records: Sequence[RequestRecord], window: SteadyWindow, objectives: Sequence[Objective] = ()
) -> dict[str, SlicedRate]:
    """Requests, tokens, images and good requests a second; those that nothing was counted of are left out.

    Args:
        records: of all requests of the run.
        window: in which answers are counted.
        objectives: objectives; goodput is left out where there are none.
    """
    if window.seconds <= 0:
        return {}
    done = sorted((one for one in records if one.outcome is RequestOutcome.OK), key=lambda one: one.scheduled_s)
    read = [one for one in records if one.outcome in _READ]
    ended, ones = np.array([one.ended_s for one in done]), np.ones(len(done))
    tokens_at = np.array([at for one in read for at in one.responses_s])
    tokens = np.array([count for one in read for count in one.tokens], dtype=np.float64)
    found = {
        "request_throughput": _counted("requests/sec", ended, ones, window),
        "output_token_throughput": _counted("tokens/sec", tokens_at, tokens, window),
        "image_throughput": _counted("images/sec", ended, np.array([float(one.images) for one in done]), window),
    }
    found = {key: rate for key, rate in found.items() if rate.value or key == "request_throughput"}
    if not objectives:
        return found
    good = keeps(samples(done), objectives).astype(np.float64)
    return found | {"goodput": _counted("requests/sec", ended, good, window)}


def keeps(found: LatencySamples, objectives: Sequence[Objective]) -> NDArray[np.bool_]:
    """Whether each request, for itself, stays under every limit; a figure that it does not have is no fault."""
    good = np.ones(len(found), dtype=np.bool_)
    for objective in objectives:
        values = getattr(found, objective.metric)
        good &= np.isnan(values) | (values < objective.limit_s)
    return good


def _counted(unit: str, at: Values, weights: Values, window: SteadyWindow) -> SlicedRate:
    counts, _ = np.histogram(at, bins=SLICES, range=(window.begins_s, window.ends_s), weights=weights)
    per_slice = counts / (window.seconds / SLICES)
    sure = intervals(per_slice).get("avg") if np.count_nonzero(counts) > SLICES // 2 else None
    return SlicedRate(unit=unit, value=float(per_slice.mean()), per_slice=per_slice, intervals=sure)
