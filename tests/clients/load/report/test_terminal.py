"""Tables say what was found, on terminals of any width."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from clients.load.analysis.comparison import compare
from clients.load.analysis.search import find_highest
from clients.load.analysis.slo import parse_objectives
from clients.load.analysis.summary import summarize
from clients.load.record import RequestOutcome
from clients.load.report.comparison_terminal import comparison_json, print_comparison
from clients.load.report.sweep_terminal import print_sweep
from clients.load.report.terminal import print_report
from tests.clients.load.simulated import records, run_of

KEPT = parse_objectives("ttft_p95<30ms,itl_p95<1us")


def printed(show, *given, width=100):
    console = Console(file=io.StringIO(), width=width)
    show(*given, console=console)
    return console.file.getvalue()


@pytest.fixture(scope="module")
def run():
    return run_of(records(rate=20, count=500, tokens=6))


@pytest.mark.parametrize("width", [80, 160])
def test_a_report_has_its_figures_whole(run, width):
    text = printed(print_report, summarize(run, KEPT), width=width)
    assert "VALID" in text and "INVALID" not in text
    for name in ("Time to first token", "Inter-token latency", "Send lag", "Added by serving", "Goodput"):
        assert name in text
    assert "met" in text and "missed" in text
    assert ("p99.9" in text.split("Latencies")[1]) == (width == 160)


def test_an_invalid_run_says_so_first(run):
    failed = replace(run.records[0], outcome=RequestOutcome.ERROR, error="[bold]UNAVAILABLE[/]")
    text = printed(print_report, summarize(replace(run, records=(failed, *run.records[1:]))), width=120)
    assert "INVALID: do not quote these figures" in text.splitlines()[1]
    assert "[bold]UNAVAILABLE[/]" in text


def test_an_overhead_that_was_not_measured_is_not_passed_over(run):
    alone = replace(run, in_process_s=())
    (line,) = [line for line in printed(print_report, summarize(alone)).splitlines() if "Added by serving" in line]
    assert line.split()[-2:] == ["not", "measured"]


def test_a_sweep_tells_what_each_level_misses_and_the_answer(run):
    slow = run_of(records(rate=20, count=500, tokens=6, service_s=0.03))
    found = find_highest(
        [10, 20], lambda level: summarize(run if level < 14 else slow, parse_objectives("ttft_p95<30ms")), runs=9
    )
    text = printed(print_sweep, found, "rate", True, width=80)
    assert "✗ ttft_p95<30ms" in text
    assert "✓" in text
    assert "highest load that keeps the objectives: 13" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80


def test_a_comparison_tells_what_is_worse(run):
    slow = run_of(records(rate=20, count=500, tokens=6, token_s=0.003, seed=3))
    found = compare(summarize(run), summarize(slow))
    text = printed(print_comparison, found, 0.05, ["arrivals.rate: 1 → 2"])
    (line,) = [line for line in text.splitlines() if line.startswith(" Inter-token latency p50")]
    assert line.split()[-1] == "worse"
    assert "the scenarios differ in arrivals.rate: 1 → 2" in text
    assert "worse by more than 5%" in text
    verdicts = {
        (one["metric"], one["statistic"]): one["verdict"] for one in comparison_json(found, 0.05, [])["figures"]
    }
    assert verdicts["inter_token_latency", "p50"] == "worse"
    assert verdicts["request_throughput", "avg"] == "alike"


def test_equal_runs_are_told_to_be_no_worse(run):
    found = compare(summarize(run), summarize(run))
    assert "no figure is surely worse by more than 5%" in printed(print_comparison, found, 0.05, [])
