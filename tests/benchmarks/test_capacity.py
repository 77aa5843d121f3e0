"""What a prediction of a run says, of a run that was recorded."""

from dataclasses import replace

from benchmarks import capacity
from benchmarks.harness.machine import ROOT
from clients.load.run_file import read_run
from tests.serving.capacity.profiles import profile


def test_a_prediction_stands_beside_what_was_measured(monkeypatch):
    monkeypatch.setattr(capacity, "SIMULATED", 100)
    run = read_run(ROOT / "benchmarks/latency/baselines/generate-stdlib-lm.json")
    run = replace(run, records=tuple(replace(one, input_tokens=one.input_tokens or 10) for one in run.records))
    found = capacity.predict(profile(step_s=0.001, prompt_s=0.002), [run, run], seconds=24.0)
    rate = found["figures"]["requests/s"]
    assert abs(rate["predicted"] / rate["measured"] - 1) < 0.05 and found["failed"] == 0
    low_s, high_s = found["p95_interval"]
    assert low_s <= found["figures"]["TTFT p95"]["measured"] <= high_s
    level = {"load": 0.3, "others": 0.1, **found}
    page = "\n".join(capacity.report({"m": {"profile": {"fit_error": {}}, "saturation": 3.0, "levels": [level]}}))
    assert "| 30% |" in page and ("within" if found["within"] else "beyond") in page
