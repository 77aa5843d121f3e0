"""``attendant capacity plan`` from the command line: a table, JSON, and errors in one line."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from attendant.errors import ConfigError
from clients.load.analysis.slo import parse_objectives
from serving import verbs
from serving.capacity.plan import plan_of_files
from tests.serving.capacity.profiles import profile

DEMAND = """
rate = "{rate}"
prompt = {{ kind = "constant", tokens = 8 }}
answer = {{ kind = "constant", tokens = 5 }}
slo = "{slo}"
price_per_gpu_hour = 2.0
"""


@pytest.fixture
def files(tmp_path):
    profile(0.01, 0.02, gpus=1).write(tmp_path / "profile.json")

    def write(rate="200/s", slo="ttft_p95<100ms"):
        (tmp_path / "demand.toml").write_text(DEMAND.format(rate=rate, slo=slo))
        return str(tmp_path / "profile.json"), str(tmp_path / "demand.toml")

    return write


def planned(*words):
    command = [sys.executable, "-m", "attendant", "capacity", "plan", *words, "--requests", "300"]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def test_a_plan_is_a_table_and_an_answer(files):
    told = planned(*files())
    assert told.returncode == 0, told.stderr
    assert "replica(s) for ttft_p95<100ms" in told.stdout and "a replica saturates at" in told.stdout
    assert "GPU(s)" in told.stdout and "an hour" in told.stdout and "met" in told.stdout
    assert "one replica saturates" in told.stderr


def test_a_plan_is_json_too_and_flags_win_over_the_file(files):
    told = planned(*files(), "--json", "--rate", "100", "--slo", "latency_p99<1s")
    found = json.loads(told.stdout)
    assert found["rate"] == 100 and found["gpus"] == found["replicas"] >= 1
    assert found["price_per_hour"] == 2.0 * found["gpus"]
    chosen = next(level for level in found["levels"] if level["replicas"] == found["replicas"])
    assert chosen["met"] and chosen["request_latency"]["p99"] < 1.0
    assert chosen["offered"] == pytest.approx(100 / found["replicas"], rel=0.2)


@pytest.mark.parametrize(
    ("asked", "words", "wanted"),
    [
        ({"rate": "often"}, (), "expected a rate as 20"),
        ({"slo": "ttft<1"}, (), "metric_statistic<limit"),
        ({}, ("--max-num-seqs", "65"), "sizes of the profile's 'decode' up to 65"),
        ({}, ("--max-num-seqs", "0"), "max_num_seqs from 1 to 1048576"),
        ({"slo": "ttft_p95<1ms"}, (), "no number of replicas helps"),
    ],
)
def test_what_cannot_be_planned_is_said_in_one_line(files, asked, words, wanted):
    told = planned(*files(**asked), *words)
    assert told.returncode == 2 and wanted in told.stderr.splitlines()[-1] and told.stdout == ""


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        *(({"rate": rate}, "a rate as") for rate in (".", "1.2.3", "1e400", "nan", "0")),
        *(({"requests": number}, "requests from 100") for number in (99, 10**12)),
        *(({"seed": seed}, "seed of 0 to") for seed in (-1, 2**63)),
    ],
)
def test_a_flag_without_bounds_is_refused(files, given, wanted):
    with pytest.raises(ConfigError, match=wanted):
        plan_of_files(*map(Path, files()), parse_objectives, print, **{"requests": 300, **given})


@pytest.mark.parametrize("error", [0.2, 0.21, math.nan])
def test_a_profile_whose_fit_is_poor_is_refused(files, tmp_path, error):
    words = files()
    profile(0.01, 0.02, gpus=1, fit_error={"decode": 0.01, "served": error}).write(tmp_path / "profile.json")
    log, ends = [], []
    for exploratory in (False, True):
        try:
            plan_of_files(*map(Path, words), parse_objectives, log.append, requests=300, exploratory=exploratory)
            ends.append("")
        except ConfigError as refused:
            ends.append(str(refused))
    assert ends[1] == ""
    assert (ends[0] == "") == (error == 0.2)
    assert not ends[0] or ("the fit errs by served" in ends[0] and "--exploratory" in ends[0])


@pytest.mark.parametrize(("error", "status"), [(0.1, 0), (0.3, 1)])
def test_a_measured_profile_whose_fit_is_poor_is_invalid(tmp_path, monkeypatch, capsys, error, status):
    found = profile(0.01, 0.02, fit_error={"decode": error})
    monkeypatch.setattr("serving.capacity.profiling.measure.measure_profile", lambda *_: found)
    assert verbs.profile(tmp_path, tmp_path / "profile.json") == status
    assert ("INVALID: the fit errs by decode 30%" in capsys.readouterr().out) == bool(status)
    assert verbs.profile(tmp_path, tmp_path / "profile.json", exploratory=True) == 0
    assert (tmp_path / "profile.json").is_file()


def test_clients_import_nothing_of_serving_before_a_plan_is_asked_for():
    asked = "import sys, clients.load.verbs; print([name for name in sys.modules if name.startswith('serving')])"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


def test_a_simulation_needs_no_runtime():
    asked = (
        "import sys, serving.capacity.plan; print([name for name in ('onnxruntime', 'torch') if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"
