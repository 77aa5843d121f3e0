"""Every benchmark is a module with help, the documents name such modules alone, and the cheap ones run for real."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SERVERS = {"benchmarks.aiperf.known_server", "benchmarks.peers.worker"}
IN_PEERS = {f"benchmarks.peers.{name}" for name in ("make_model", "export_openvino", "export_gguf")}


def modules():
    for path in sorted((ROOT / "benchmarks").rglob("*.py")):
        if '__name__ == "__main__"' in path.read_text():
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")


COMMANDS = [name for name in modules() if name not in SERVERS | IN_PEERS]


def run(monkeypatch, module, *words):
    monkeypatch.setattr(sys, "argv", [module, *map(str, words)])
    runpy.run_module(module, run_name="__main__")


@pytest.mark.parametrize("module", COMMANDS)
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
def test_a_benchmark_says_what_it_measures(module, monkeypatch, capsys):
    with pytest.raises(SystemExit, match="0"):
        run(monkeypatch, module, "--help")
    assert f"usage: python -m {module} " in capsys.readouterr().out


def test_documents_name_benchmarks_that_there_are():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "Makefile", *(ROOT / "docs").rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"python -m (benchmarks[\w.]*\w)", page.read_text())}
    assert {"benchmarks.latency", "benchmarks.gpu", "benchmarks.gpu.tiles"} <= named <= {*modules()}


@pytest.mark.patient
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
def test_a_calibration_is_written_down_with_its_machine(monkeypatch, tmp_path, capsys):
    words = ("--seconds", 6, "--queues", 2, "--service-ms", 20, "--out", tmp_path)
    run(monkeypatch, "benchmarks.load_calibration", *words)
    (page,) = tmp_path.glob("*-load-calibration.md")
    assert page.read_text() == capsys.readouterr().out
    assert "    python -m benchmarks.load_calibration --seconds 6 " in page.read_text()
    record = json.loads(page.with_suffix(".json").read_text())
    assert {"processor", "cores", "memory", "versions"} <= record["machine"].keys()
    assert record["queues"]["M/D/1"]["requests"] > 10 and record["queues"]["M/M/1"]["failed"] == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
def test_the_sensitivity_of_a_tiny_model_is_recorded(monkeypatch, tmp_path):
    record = tmp_path / "sensitivity.json"
    run(monkeypatch, "benchmarks.sensitivity", "--models", "bert-tiny", "--record", record, "--out", tmp_path)
    found = json.loads(record.read_text())
    assert found.keys() == {"float16", "bfloat16"}
    assert all(ratio > 0 for one in found.values() for of in one["ratios"].values() for ratio in of.values())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
def test_maps_of_a_class_are_told_apart(monkeypatch, tmp_path):
    run(monkeypatch, "benchmarks.class_maps", "--out", tmp_path)
    (record,) = tmp_path.glob("*.json")
    for of_model in json.loads(record.read_text())["shares"].values():
        assert of_model["occlusion"][0] < of_model["random"][0] < of_model["occlusion"][1]
