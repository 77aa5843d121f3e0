"""JSON has AIPerf's keys, layout and units."""

import json
from dataclasses import replace

import pytest

from clients.load.analysis.slo import parse_objectives
from clients.load.analysis.summary import summarize
from clients.load.record import RequestOutcome
from clients.load.report.summary_json import plain
from tests.clients.load.simulated import records, run_of

OF_AIPERF = {
    "schema_version",
    *("request_throughput", "request_latency", "request_count", "error_request_count", "benchmark_duration"),
    *("time_to_first_token", "time_to_second_token", "inter_token_latency", "inter_chunk_latency"),
    *("output_token_throughput", "output_sequence_length", "input_sequence_length", "goodput"),
    *("effective_latency", "credit_to_start_latency"),
    *("input_config", "was_cancelled", "error_summary", "start_time", "end_time"),
}
"""JsonExportData of AIPerf 0.13.0 and what it derives, of a run of streams."""


@pytest.fixture(scope="module")
def summary():
    found = records(rate=20, count=500, tokens=6)
    found[9] = replace(found[9], outcome=RequestOutcome.ERROR, error="UNAVAILABLE")
    return summarize(run_of(found), parse_objectives("ttft_p95<1s"))


def test_the_keys_are_aiperfs(summary):
    assert set(plain(summary)) >= OF_AIPERF


def test_a_metric_is_laid_out_as_aiperf_does(summary):
    found, metric = plain(summary)["request_latency"], summary.metrics["request_latency"]
    assert list(found) == [
        *("unit", "avg", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p99.9"),
        *("min", "max", "std", "count", "sum", "ci95"),
    ]
    assert found["unit"] == "ms"
    assert found["p95"] == pytest.approx(1e3 * metric.value("p95"))
    assert found["ci95"]["p95"][0] <= found["p95"] <= found["ci95"]["p95"][1]


def test_one_figure_has_an_average_alone(summary):
    found = plain(summary)
    assert found["benchmark_duration"] == {"unit": "sec", "avg": pytest.approx(summary.window.seconds)}
    assert found["request_throughput"]["unit"] == "requests/sec"
    assert set(found["output_token_throughput"]) == {"unit", "avg", "ci95"}


def test_what_went_wrong_is_in_it(summary):
    found = plain(summary)
    assert found["error_summary"] == [{"error_details": {"type": "error", "message": "UNAVAILABLE"}, "count": 1}]
    assert not found["valid"]
    assert "UNAVAILABLE" in found["invalid_because"][0]
    assert found["objectives"][0]["met"] is True
    assert found["end_time"] > found["start_time"]


def test_it_is_json(summary):
    assert json.loads(json.dumps(plain(summary), allow_nan=False))["command"].startswith("attendant load run")
