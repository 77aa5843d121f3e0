"""``attendant capacity plan`` from the command line: a table, JSON, and errors in one line."""

import json
import subprocess
import sys

import pytest

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
        ({}, ("--max-num-seqs", "0"), "max_num_seqs of at least 1"),
        ({"slo": "ttft_p95<1ms"}, (), "no number of replicas helps"),
    ],
)
def test_what_cannot_be_planned_is_said_in_one_line(files, asked, words, wanted):
    told = planned(*files(**asked), *words)
    assert told.returncode == 2 and wanted in told.stderr.splitlines()[-1] and told.stdout == ""


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
