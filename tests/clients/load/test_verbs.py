"""The verb that runs a load test, before anything is sent."""

import numpy as np
import pytest

from attendant.errors import OutputError
from clients.load import verbs

SCENARIO = """
requests = 1
[arrivals]
kind = "replay"
trace = "trace.csv"
[[workloads]]
model = "digits-vit"
inputs = { kind = "files", files = ["inputs.npy"] }
expect = { kind = "arrays", file = "right.npz" }
"""


@pytest.mark.parametrize("name", ["scenario.toml", "inputs.npy", "right.npz", "trace.csv"])
@pytest.mark.parametrize("flag", ["out", "html", "csv"])
def test_a_run_is_not_written_over_what_it_reads(tmp_path, monkeypatch, name, flag):
    monkeypatch.setattr(verbs, "run_with_progress", lambda *_, **__: pytest.fail("requests were sent"))
    (tmp_path / "scenario.toml").write_text(SCENARIO)
    np.save(tmp_path / "inputs.npy", np.zeros((2, 3)))
    np.savez(tmp_path / "right.npz", y=np.zeros((2, 3)))
    (tmp_path / "trace.csv").write_text("scheduled_s\n0\n")
    before = (tmp_path / name).read_bytes()
    with pytest.raises(OutputError, match="file of its own"):
        verbs.run(tmp_path / "scenario.toml", **{flag: tmp_path / name})
    assert (tmp_path / name).read_bytes() == before
