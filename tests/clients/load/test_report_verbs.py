"""The verbs that work on runs: what they print, write and end with."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from attendant.errors import ConfigError, InputError, OutputError
from clients.load import report_verbs
from clients.load.flags import LoadFlags
from clients.load.record import RequestOutcome
from clients.load.run_file import write_run
from tests.clients.load.simulated import records, run_of

SCENARIO = """
name = "digits"
duration_s = 5.0
[arrivals]
kind = "constant"
rate = 1.0
[[workloads]]
name = "digits"
model = "digits-vit"
"""


@pytest.fixture
def runs(tmp_path):
    made = {"before": {}, "same": {"seed": 1}, "slower": {"seed": 2, "token_s": 0.004}, "drowned": {"rate": 200}}
    for name, given in made.items():
        write_run(run_of(records(**{"rate": 20, "count": 400, "tokens": 6} | given)), tmp_path / f"{name}.json")
    return tmp_path


def test_a_run_is_reported_in_every_form(runs, capsys):
    status = report_verbs.report(
        runs / "before.json", "ttft_p95<1s", runs / "page" / "run.html", runs / "run.csv", json=True
    )
    told = json.loads(capsys.readouterr().out)
    assert (status, told["valid"], told["objectives"][0]["met"]) == (0, True, True)
    assert (runs / "page" / "run.html").read_text().startswith("<!doctype html>")
    assert len((runs / "run.csv").read_text().splitlines()) == 401


@pytest.mark.parametrize(("name", "slo"), [("before", "ttft_p95<1ms"), ("drowned", "")])
def test_a_missed_objective_or_an_invalid_run_ends_with_1(runs, capsys, name, slo):
    assert report_verbs.report(runs / f"{name}.json", slo) == 1
    assert ("INVALID" if not slo else "missed") in capsys.readouterr().out


def test_an_exploratory_report_of_an_invalid_run_ends_with_0(runs, tmp_path, capsys):
    assert report_verbs.report(runs / "drowned.json", exploratory=True) == 0
    shown = capsys.readouterr().out
    assert "EXPLORATORY" in shown
    assert "no steady state" in " ".join(shown.split())
    assert report_verbs.report(runs / "before.json", exploratory=True) == 0
    assert "VALID" in capsys.readouterr().out
    failed = [replace(one, outcome=RequestOutcome.ERROR, error="gone") for one in records(count=50)]
    write_run(run_of(failed), tmp_path / "failed.json")
    assert report_verbs.report(tmp_path / "failed.json", exploratory=True) == 1


@pytest.mark.parametrize(
    "outputs", [{"html": "before.json"}, {"csv": "linked.json"}, {"html": "page", "csv": "runs/../page"}]
)
def test_a_report_is_written_neither_over_its_run_nor_over_itself(runs, outputs):
    (runs / "linked.json").symlink_to(runs / "before.json")
    before = (runs / "before.json").read_bytes()
    with pytest.raises(OutputError, match="file of its own"):
        report_verbs.report(runs / "before.json", **{name: runs / path for name, path in outputs.items()})
    assert (runs / "before.json").read_bytes() == before
    assert not (runs / "page").exists()


def test_a_report_goes_twice_to_a_device(runs):
    assert report_verbs.report(runs / "before.json", html=Path("/dev/null"), csv=Path("/dev/null")) == 0


@pytest.mark.parametrize(("second", "status"), [("before", 0), ("same", 0), ("slower", 1)])
def test_compare_ends_with_1_where_the_second_is_worse(runs, capsys, second, status):
    assert report_verbs.compare(runs / "before.json", runs / f"{second}.json") == status
    told = capsys.readouterr().out.splitlines()[-1]
    assert told.startswith("worse by more than 5%") == (status == 1)


def test_compare_is_not_alarmed_within_its_tolerance(runs, capsys):
    assert report_verbs.compare(runs / "before.json", runs / "slower.json", tolerance=2.0, json=True) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert "within tolerance" in {one["verdict"] for one in figures}


def test_compare_refuses_an_invalid_run(runs):
    with pytest.raises(InputError) as refused:
        report_verbs.compare(runs / "before.json", runs / "drowned.json")
    assert refused.value.exit_status == 2


@pytest.mark.parametrize("tolerance", [-0.1, math.nan, math.inf])
def test_compare_refuses_a_tolerance_that_is_no_share(runs, tolerance):
    with pytest.raises(ConfigError, match="at least 0"):
        report_verbs.compare(runs / "before.json", runs / "slower.json", tolerance=tolerance)


@pytest.fixture
def swept(tmp_path, monkeypatch):
    """A scenario's file, whose runs are simulated: no server answers a level in this process."""
    asked = []

    def run(scenario, title, keep_interrupted):
        assert keep_interrupted
        asked.append((scenario.arrivals, scenario.duration_s, title))
        arrivals = scenario.arrivals
        rate = getattr(arrivals, "rate", None) or 10.0 * arrivals.concurrency
        return run_of(records(rate=rate, count=400, tokens=4), arrivals={"rate": rate}, name=scenario.name)

    monkeypatch.setattr(report_verbs, "run_with_progress", run)
    (tmp_path / "scenario.toml").write_text(SCENARIO)
    return tmp_path / "scenario.toml", asked


def test_a_sweep_finds_the_highest_rate_and_keeps_its_runs(swept, tmp_path, capsys):
    path, asked = swept
    out, page = tmp_path / "runs", tmp_path / "sweep.html"
    status = report_verbs.sweep(
        path,
        rates=(20, 120),
        slo="ttft_p95<80ms",
        runs=3,
        requests=LoadFlags(duration_s=2.0),
        out=out,
        html=page,
        json=True,
    )
    told = json.loads(capsys.readouterr().out)
    assert status == 0
    assert 20 <= told["highest"] < 120
    assert len(told["levels"]) == len(asked) == len(list(out.glob("rate-*.json"))) <= 5
    assert {(arrivals.rate, seconds) for arrivals, seconds, _ in asked} == {
        (one["level"], 2.0) for one in told["levels"]
    }
    assert type(asked[0][0]).__name__ == "Constant"
    assert asked[0][2] == "digits, 20 requests/s offered"
    assert "highest load that keeps the objectives" in page.read_text()


def test_a_sweep_that_cannot_write_its_runs_measures_nothing(swept, tmp_path):
    path, asked = swept
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="a place to write"):
        report_verbs.sweep(path, rates=(1.0,), out=tmp_path / "file")
    assert not asked


def test_a_sweep_is_not_written_over_what_it_reads_or_its_runs(swept, tmp_path):
    path, asked = swept
    with pytest.raises(OutputError, match="file of its own"):
        report_verbs.sweep(path, rates=(20.0, 30.0), html=path)
    with pytest.raises(OutputError, match="file of its own"):
        report_verbs.sweep(path, rates=(20.0, 30.0), out=tmp_path, html=tmp_path / "rate-30.json")
    assert path.read_text() == SCENARIO
    assert not asked


def test_a_sweep_of_concurrency_measures_every_level(swept, capsys):
    path, asked = swept
    assert report_verbs.sweep(path, concurrency=(1, 2, 4)) == 0
    assert [arrivals.concurrency for arrivals, *_ in asked] == [1, 2, 4]
    assert "every level was measured" in capsys.readouterr().out


def test_a_sweep_needs_no_file(swept, capsys):
    _, asked = swept
    flags = LoadFlags(model="digits-vit", server="there:1", warmup_s=0.0)
    assert report_verbs.sweep(None, rates=(20,), requests=flags) == 0
    assert [title for *_, title in asked] == ["digits-vit, 20 requests/s offered"]


def test_a_sweep_that_is_cut_short_prints_its_levels_and_ends_with_130(swept, monkeypatch, capsys):
    path, asked = swept
    whole = report_verbs.run_with_progress

    def run(scenario, title, keep_interrupted):
        return replace(whole(scenario, title, keep_interrupted), interrupted=len(asked) > 2)

    monkeypatch.setattr(report_verbs, "run_with_progress", run)
    assert report_verbs.sweep(path, rates=(20, 30, 40), slo="ttft_p95<1s") == 130
    shown = " ".join(capsys.readouterr().out.split())
    assert "30 requests/s offered so far (cut short by Ctrl-C)" in shown


def test_a_sweep_says_why_a_level_is_invalid_and_what_to_do(swept, monkeypatch, tmp_path, capsys):
    path, _ = swept
    few = run_of(records(rate=20, count=17))
    monkeypatch.setattr(report_verbs, "run_with_progress", lambda *_, **__: few)
    assert report_verbs.sweep(path, rates=(20,), slo="ttft_p95<1s", html=tmp_path / "sweep.html") == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "17 requests are too few: 40 at least; let it run longer" in shown
    assert "nothing is known of the server" in shown
    assert "17 requests are too few: 40 at least; let it run longer" in (tmp_path / "sweep.html").read_text()
    assert report_verbs.sweep(path, rates=(20,), slo="ttft_p95<1s", exploratory=True) == 0


def test_a_sweep_that_finds_no_level_ends_with_1(swept, capsys):
    path, _ = swept
    assert report_verbs.sweep(path, rates=(20, 40), slo="ttft_p95<1us") == 1
    assert "no level keeps the objectives" in capsys.readouterr().out


@pytest.mark.parametrize(
    "levels", [{}, {"rates": (1.0,), "concurrency": (1,)}, {"rates": (0.0, 5.0)}, {"concurrency": (-1,)}]
)
def test_a_sweep_needs_one_kind_of_levels_above_0(swept, levels):
    with pytest.raises(ConfigError):
        report_verbs.sweep(swept[0], **levels)


@pytest.mark.parametrize(
    "levels",
    [
        *({"rates": (20.0, level)} for level in (1e8, 1e12, 1e308, math.inf, math.nan, 20.0)),
        *({"concurrency": (2, level)} for level in (10_000_000, 2)),
    ],
)
@pytest.mark.parametrize("flags", [LoadFlags(), LoadFlags(requests=5, warmup_s=1.0)])
def test_a_level_that_cannot_be_is_refused_before_any_is_measured(swept, levels, flags):
    path, asked = swept
    with pytest.raises(ConfigError):
        report_verbs.sweep(path, **levels, requests=flags)
    assert not asked


def test_each_of_two_close_levels_is_kept(swept, tmp_path):
    assert report_verbs.sweep(swept[0], rates=(20.001, 20.002, 20.0), out=tmp_path / "runs") == 0
    names = {path.name for path in (tmp_path / "runs").iterdir()}
    assert names == {"rate-20.json", "rate-20.001.json", "rate-20.002.json"}


def test_a_run_of_errors_is_reported_and_not_lost(tmp_path, capsys):
    failed = [
        replace(one, outcome=RequestOutcome.ERROR, error="gone", responses_s=(), tokens=()) for one in records(count=50)
    ]
    write_run(run_of(failed, server=None), tmp_path / "run.json")
    assert report_verbs.report(tmp_path / "run.json", html=tmp_path / "run.html") == 1
    assert "50 of 50 requests failed; most often (50): gone" in " ".join(capsys.readouterr().out.split())
