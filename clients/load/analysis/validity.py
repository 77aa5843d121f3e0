"""Whether a run says anything of the server: it does not where something else was slow, or anything was wrong."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from attendant.quantities import seconds_text
from clients.load.analysis.metrics import Metric
from clients.load.analysis.steady import FEWEST, SteadyWindow
from clients.load.record import LoadRun, RequestOutcome, RequestRecord
from clients.load.synthetic_prompts import NOTE

_STALL_S = 0.5  # Triton's batcher sleeps so long when it misses a wake-up: facts of triton-inference-server/core
_STALLED = 3
_ABOVE_NEIGHBOURS = 4.0
_FULL = 0.95
_QUIETER = "let other programs end, keep a core for this one (taskset), or run it on another machine than the server"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidityBounds:
    """What a generator may cost before its figures are no longer the server's.

    Lags are bounded by the greater of a time and a share of the median latency: 5 ms late is much to an answer of 2 ms,
    and nothing to one of 2 s.

    Attributes:
        cpu_share: CPU seconds of the generator a second; its event loop has one core.
        lag_s: least bound of the 99th percentile of send lag and of loop lag, in seconds.
        lag_share: the same, as a share of the median latency.
        client_share: what a unary request may take outside the server, as a share of its time inside; no less than
            ``client_s`` seconds.
        client_s: see ``client_share``.
    """

    cpu_share: float = 0.9
    lag_s: float = 0.005
    lag_share: float = 0.1
    client_share: float = 1.0
    client_s: float = 0.005


class Fault(Enum):
    """What makes figures not the server's own."""

    ANSWERS = "errors or wrong answers"
    GENERATOR = "the generator was the limit"
    STALL = "the batcher stalled"
    CLIENT = "the client was slower than the server"
    FEW = "too few requests"
    UNSTEADY = "no steady state"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a run is invalid.

    Attributes:
        fault: its kind.
        problem: in one line, with what was found and what was allowed.
        remedy: what to do.
    """

    fault: Fault
    problem: str
    remedy: str

    @property
    def message(self) -> str:
        """Both in one line."""
        return f"{self.problem}; {self.remedy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """What to think of a run.

    Attributes:
        reasons: why it is invalid; none if it is valid.
        remarks: what to bear in mind.
    """

    reasons: tuple[Reason, ...]
    remarks: tuple[str, ...]

    @property
    def valid(self) -> bool:
        """Whether the figures may be quoted."""
        return not self.reasons


def check_validity(
    run: LoadRun, window: SteadyWindow, figures: dict[str, Metric], bounds: ValidityBounds | None = None
) -> Validity:
    """Look for everything that makes figures not the server's own."""
    bounds = bounds or ValidityBounds()
    inside = [one for one in run.records if window.begins_s <= one.scheduled_s <= window.ends_s]
    reasons = (
        *_check_answers(run.records),
        *_check_generator(run, figures, bounds),
        *_check_stalls(inside),
        *_check_client(run, inside, figures, bounds),
        *_check_steady(run, window),
    )
    return Validity(reasons=reasons, remarks=tuple(_remarks(run, figures)))


def _check_steady(run: LoadRun, window: SteadyWindow) -> Iterator[Reason]:
    if window.answered is None:
        if window.unsteady:
            yield Reason(Fault.UNSTEADY, f"no steady state: {window.unsteady}", "let it run longer, or ask for less")
        return
    sent = sum(one.scheduled_s >= window.begins_s for one in run.records)
    if sent >= FEWEST:
        problem = f"{window.answered} of {sent} requests were answered: {FEWEST} at least"
        yield Reason(Fault.UNSTEADY, problem, "see what became of the others, or ask for less")
    elif sent:
        needed_s = math.ceil(1.25 * FEWEST * max(window.seconds, 1.0) / sent)
        remedy = f"let it run longer: --duration-s {needed_s}"
        yield Reason(Fault.FEW, f"{sent} requests are too few: {FEWEST} at least", remedy)


def _check_answers(records: Sequence[RequestRecord]) -> Iterator[Reason]:
    if not records:
        yield Reason(Fault.ANSWERS, "no request was sent", "let it run longer (--duration-s), or raise the rate")
    for outcome, verb, remedy in (
        (RequestOutcome.ERROR, "failed", "mend what the server says of it, and look at its log"),
        (RequestOutcome.WRONG, "answered wrongly", "mend the model (attendant verify), or what the scenario expects"),
    ):
        errors = Counter(one.error for one in records if one.outcome is outcome)
        if errors:
            often, count = errors.most_common(1)[0]
            most = f"; most often ({count}): {often}" if often else ""
            yield Reason(Fault.ANSWERS, f"{errors.total()} of {len(records)} requests {verb}{most}", remedy)


def _check_generator(run: LoadRun, figures: dict[str, Metric], bounds: ValidityBounds) -> Iterator[Reason]:
    if (share := run.generator.cpu_share) > bounds.cpu_share:
        problem = f"the generator was the limit: {share:.0%} of a core used, {bounds.cpu_share:.0%} allowed"
        yield Reason(Fault.GENERATOR, problem, "use fewer requests, or more generators")
    latency = figures.get("request_latency")
    allowed = max(bounds.lag_s, bounds.lag_share * (latency.value("p50") if latency else 0.0))
    lag = figures.get("credit_to_start_latency")
    sends = lag.value("p99") if lag else 0.0
    loops = float(np.percentile(run.generator.loop_lags_s, 99)) if run.generator.loop_lags_s else 0.0
    busy = f", on a machine that was {run.generator.machine_share:.0%} busy" if _is_full(run) else ""
    for problem, seconds in (("requests were sent late", sends), ("the generator's event loop woke late", loops)):
        if seconds > allowed:
            text = f"{problem}: 99th percentile {seconds_text(seconds)}, {seconds_text(allowed)} allowed{busy}"
            yield Reason(Fault.GENERATOR, text, _QUIETER)


def _check_stalls(inside: Sequence[RequestRecord]) -> Iterator[Reason]:
    answered = [one for one in inside if one.outcome is RequestOutcome.OK and one.responses_s]
    first = np.array([one.responses_s[0] - one.sent_s for one in answered])
    if not len(first) or np.median(first) > _STALL_S / 2:
        return
    width = 0.02 + 2 * float(np.median(first))
    stalled = _count_between(first, _STALL_S - 0.005, _STALL_S + width)
    around = (
        _count_between(first, _STALL_S - 0.005 - width, _STALL_S - 0.005)
        + _count_between(first, _STALL_S + width, _STALL_S + 2 * width)
    ) / 2
    if stalled >= _STALLED and stalled > _ABOVE_NEIGHBOURS * (around + 1):
        problem = f"{stalled} answers began 500 ms late, and few just before or after: a batcher missed its wake-up"
        yield Reason(Fault.STALL, problem, "remove default_queue_policy from the model's configuration")


def _count_between(values: NDArray[np.float64], low: float, high: float) -> int:
    return int(np.count_nonzero((values >= low) & (values < high)))


def _check_client(
    run: LoadRun, inside: Sequence[RequestRecord], figures: dict[str, Metric], bounds: ValidityBounds
) -> Iterator[Reason]:
    # Of streams, Triton counts the time until they were taken on, not until their last response.
    if run.server is None or not run.server.requests or any(len(one.responses_s) > 1 for one in inside):
        return
    server = (run.server.queue_s + run.server.compute_s) / run.server.requests
    took = figures["request_latency"].avg if "request_latency" in figures else 0.0
    allowed = max(bounds.client_s, bounds.client_share * server)
    if took - server > allowed:
        outside = f"of {seconds_text(took)} a request, {seconds_text(took - server)} passed outside the server"
        problem = f"the client was slower than the server: {outside}, {seconds_text(allowed)} allowed"
        yield Reason(Fault.CLIENT, problem, "look at the network, and at what else the client's machine does")


def _is_full(run: LoadRun) -> bool:
    return run.generator.machine_share > _FULL


def _remarks(run: LoadRun, figures: dict[str, Metric]) -> Iterator[str]:
    if run.interrupted:
        yield f"cut short by Ctrl-C after {run.duration_s:.1f} s: the figures are of what was measured until then"
    latency = figures.get("request_latency")
    if latency and latency.distribution:
        thin = [
            f"p{rank:g}"
            for rank in latency.distribution.percentiles
            if rank >= 90 and not latency.distribution.supports(rank)
        ]
        if thin:
            yield f"{latency.distribution.count} requests: fewer than ten lie beyond {', '.join(thin)}"
    late = sum(one.outcome is RequestOutcome.DEADLINE_EXCEEDED for one in run.records)
    if late:
        share = late / len(run.records)
        yield f"{late} requests passed their deadline: percentiles above p{100 * (1 - share):.3g} are lower bounds"
    if _is_full(run):
        share = run.generator.machine_share
        yield f"the machine was {share:.0%} busy: generator and server took turns if they share it"
    if run.server is None:
        yield "the server's metrics could not be read: no queue time, and no check of the client against the server"
    for name, note in run.environment.items():
        if name.startswith(NOTE):
            yield f"{name}: {note}"
    if not run.in_process_s:
        yield "the same requests were not timed without a server: the overhead of serving is not known"
