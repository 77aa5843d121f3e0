"""A summary as JSON: AIPerf's layout and names, milliseconds for times, and beside them what AIPerf does not say.

Source: AIPerf 0.13.0, common/models/export_models.py: JsonExportData, JsonMetricResult.
"""

from datetime import datetime, timedelta
from typing import Any

from clients.load.analysis.metrics import SECONDS, Metric
from clients.load.analysis.summary import Summary
from clients.load.record import RequestOutcome

SCHEMA = "1.0"
_IN_SECONDS = ("benchmark_duration",)


def plain(summary: Summary) -> dict[str, Any]:
    """The summary in plain values."""
    run, validity = summary.run, summary.validity
    return {
        "schema_version": SCHEMA,
        "serving_overhead": None,
        **_metrics(summary.metrics),
        "input_config": run.scenario,
        "was_cancelled": run.interrupted,
        "error_summary": _errors(summary),
        "start_time": run.started_at,
        "end_time": (datetime.fromisoformat(run.started_at) + timedelta(seconds=run.duration_s)).isoformat(),
        "valid": validity.valid,
        "invalid_because": [reason.message for reason in validity.reasons],
        "remarks": list(validity.remarks),
        "steady_window": {"begins_s": summary.window.begins_s, "ends_s": summary.window.ends_s},
        "objectives": [
            {
                "text": one.objective.text,
                "found_ms": None if one.found_s is None else 1e3 * one.found_s,
                "met": one.met,
            }
            for one in summary.objectives
        ],
        "workloads": {name: _metrics(found) for name, found in summary.by_workload.items()},
        "command": run.command,
        "environment": run.environment,
    }


def _metrics(found: dict[str, Metric]) -> dict[str, Any]:
    return {key: _metric(metric, key in _IN_SECONDS) for key, metric in found.items()}


def _metric(metric: Metric, in_seconds: bool) -> dict[str, Any]:
    seconds = metric.unit == SECONDS
    scale = 1e3 if seconds and not in_seconds else 1.0
    unit = ("sec" if in_seconds else "ms") if seconds else metric.unit
    values: dict[str, Any] = {"unit": unit, "avg": metric.avg * scale}
    spread = metric.distribution
    if spread is not None:
        values |= {f"p{rank:g}": value * scale for rank, value in spread.percentiles.items()}
        values |= {"min": spread.min * scale, "max": spread.max * scale, "std": spread.std * scale}
        values |= {"count": spread.count, "sum": spread.total * scale}
    if metric.intervals:
        values["ci95"] = {name: [low * scale, high * scale] for name, (low, high) in metric.intervals.items()}
    return values


def _errors(summary: Summary) -> list[dict[str, Any]]:
    found: dict[tuple[str, str], int] = {}
    for record in summary.run.records:
        if record.outcome in (RequestOutcome.ERROR, RequestOutcome.WRONG):
            key = record.outcome.value, record.error
            found[key] = found.get(key, 0) + 1
    most_often = sorted(found.items(), key=lambda entry: -entry[1])
    return [
        {"error_details": {"type": type_, "message": message}, "count": count} for (type_, message), count in most_often
    ]
