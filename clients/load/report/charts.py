"""The plots of one run, each in its card."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attendant.markup import Markup
from clients.load.analysis.samples import Samples, samples
from clients.load.analysis.slo import Objective, limits_on
from clients.load.analysis.summary import Summary
from clients.load.record import Outcome
from clients.load.report.page_parts import figure, legend
from clients.load.report.spread_charts import Values, by_percentile, histogram
from clients.load.report.time_chart import WIDE, throughput, timeline

_INTENDED, _SENT = "from the intended time", "from the time it was sent"
_SHAPES = {
    Outcome.OK: ("dots s0", "answered"),
    Outcome.CANCELLED: ("dots cancelled", "cancelled"),
    Outcome.LATE: ("dots late", "late"),
    Outcome.ERROR: ("cross error", "error"),
    Outcome.WRONG: ("cross wrong", "wrong answer"),
}


def charts(summary: Summary) -> str:
    """Every plot that the records allow."""
    window = summary.window
    inside = samples(one for one in summary.run.records if window.begins_s <= one.intended_s <= window.ends_s)
    cards = list(_spread(inside, [one.objective for one in summary.objectives])) if len(inside) else []
    if summary.run.records:
        cards += [_timeline(summary), _throughput(summary)]
    return "".join(cards)


def _spread(inside: Samples, kept: list[Objective]) -> Iterator[str]:
    first = inside.effective_time_to_first_token[~np.isnan(inside.effective_time_to_first_token)]
    between = inside.inter_token_latency[~np.isnan(inside.inter_token_latency)]
    latency = limits_on("effective_latency", kept)
    yield _by_percentile(inside, latency, wide=bool(len(first)) and bool(len(between)))
    if not len(first):
        drawn = histogram("latency", inside.effective_latency, latency)
        yield figure("Latency", "From the intended time to the last response.", drawn)
        return
    drawn = histogram("time to first token", first, limits_on("effective_time_to_first_token", kept))
    yield figure("Time to first token", "From the intended time to the first response.", drawn)
    if len(between):
        drawn = histogram("inter-token latency", between, limits_on("inter_token_latency", kept), "s2")
        yield figure(
            "Inter-token latency", "From the first response to the last, a token; one figure a request.", drawn
        )


def _by_percentile(inside: Samples, kept: list[Objective], wide: bool) -> str:
    series: dict[str, Values] = {_INTENDED: inside.effective_latency, _SENT: inside.request_latency}
    drawn = by_percentile(series, kept, WIDE if wide else WIDE / 2)
    note = "The cumulative distribution, its tail drawn out. Where the lines part, the generator itself sent late."
    return figure("Latency by percentile", note, drawn, legend({"s0": _INTENDED, "s1": _SENT}), wide)


def _timeline(summary: Summary) -> str:
    records = summary.run.records
    counts = {outcome: sum(one.outcome is outcome for one in records) for outcome in Outcome}
    told = ", ".join(f"{count:,} {outcome.value}" for outcome, count in counts.items() if count)
    note = f"By its intended time: {told}. Shaded: outside the steady window, and in no figure."
    key = legend(dict(shape for outcome, shape in _SHAPES.items() if counts[outcome]))
    return figure("Every request", note, timeline(records, summary.window, summary.run.duration_s), key, wide=True)


def _throughput(summary: Summary) -> Markup:
    read = [one for one in summary.run.records if one.outcome in (Outcome.OK, Outcome.CANCELLED)]
    weights = np.array([float(count) for one in read for count in one.tokens])
    at_s, unit = np.array([at for one in read for at in one.responses_s]), "tokens/s"
    if not weights.sum():
        at_s, unit = np.array([one.ended_s for one in read]), "requests/s"
        weights = np.ones(len(at_s))
    drawn = throughput(at_s, weights, unit, summary.window, summary.run.duration_s)
    return figure("What came back", f"{unit.capitalize()} over the run.", drawn, wide=True)
