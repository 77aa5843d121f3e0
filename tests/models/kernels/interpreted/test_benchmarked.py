"""Whatever benchmarks/gpu times beside each other computes the same; its scripts run from end to end on tiny sizes."""

import json
import sys

import pytest
import torch

from benchmarks.gpu import attention, goals, tiles
from benchmarks.gpu.cases import decode, prefill
from benchmarks.gpu.step_cases import additive, append
from benchmarks.gpu.window_cases import windows
from models.kernel_configs import tuned
from models.kernel_configs.tuned import Tiles
from tests.models.agreement import difference

CPU = torch.device("cpu")
CASES = {
    "causal prefill": lambda: prefill(1, 2, 1, 20, 16, True, CPU),
    "encoder": lambda: prefill(2, 2, 2, 17, 32, False, CPU),
    "decode": lambda: decode(2, 4, 2, 300, 16, 4, CPU),
    "append": lambda: append(2, 4, 2, 40, 16, 4, CPU),
    "additive": lambda: additive(2, 9, 16, 24, CPU, compiles=False),
    "windows": lambda: windows(1, 8, 2, 16, 4, 0, CPU, compiles=False),
    "shifted windows": lambda: windows(2, 8, 2, 16, 4, 2, CPU, compiles=False),
    "cosines": lambda: windows(2, 8, 2, 16, 4, 2, CPU, cosine=True, compiles=False),
}
LEAST = {"windows": 2, "shifted windows": 2, "cosines": 2, "decode": 2, "append": 2}


@pytest.mark.filterwarnings("ignore")  # of PyTorch, where a library does not run on a CPU
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in ("windows", "cosines") else ()) for name in CASES]
)
def test_every_library_that_runs_on_a_cpu_agrees_with_our_kernel(name):
    case = CASES[name]()
    wanted, agreed = case.ours().float(), []
    for library, call in case.rivals.items():
        try:
            found = call()
        except RuntimeError:
            continue
        assert found.shape == wanted.shape and difference(found.float(), wanted) <= 4e-3 * max(1, wanted.abs().max())
        agreed.append(library)
    assert len(agreed) >= LEAST.get(name, 1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_trial_of_the_benchmark_has_a_table_of_every_kind(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["attention.py", "--quick", "--out", str(tmp_path)])
    attention.main()
    (page,) = tmp_path.glob("*.md")
    kinds = [line.split(":")[0] for line in page.read_text().splitlines() if line.startswith("## ")]
    assert kinds == ["## prefill", "## decode", "## append", "## windows", "## additive"]
    assert "a CPU: figures mean nothing" in page.read_text()
    numbers = json.loads(page.with_suffix(".json").read_text())
    assert {one["kind"] for one in numbers["measured"]} == {kind.removeprefix("## ") for kind in kinds}
    assert numbers["roofs"].keys() == {"bytes_per_second", "flops"}


@pytest.mark.filterwarnings("ignore")  # of PyTorch, where a library does not run on a CPU
def test_a_trial_of_the_goals_has_a_fraction_a_kernel_but_decides_nothing(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", ["goals.py", "--quick", "--out", str(tmp_path)])
    assert goals.main() == 0
    page = capsys.readouterr().out
    (record,) = tmp_path.glob("*-gpu-goals.json")
    found = {one["goal"]: one for one in json.loads(record.read_text())["fractions"]}
    assert found["plugin"]["value"] > 0 and found["decode"]["value"] > 0
    assert "sm_90, which has wgmma; found sm_86" in found["hopper"]["reason"]
    assert all(f"- {goal}: not measured" in page for goal in goals.GOALS)


def test_the_best_of_the_candidates_is_kept_where_kernels_read_it(monkeypatch, tmp_path):
    path, small = tmp_path / "tiles.json", Tiles(queries=16, keys=32, warps=4, stages=2)
    other = {"sm_90": {"flash_attention": {"16 bits, heads of 64": small}}}
    tuned.write(other, path)
    # The interpreter's times say nothing of a GPU: the second candidate is declared the fastest.
    monkeypatch.setattr(tiles, "milliseconds", lambda call, device, timed: call() is None or _said(small))
    monkeypatch.setattr(sys, "argv", ["tiles.py", "--quick", "--out", str(path), "--kernels", "flash_attention"])
    tiles.main()
    found = tuned.read(path)
    assert found.pop("sm_90") == other["sm_90"]
    assert found == {
        name: {"flash_attention": {"16 bits, heads of 16": small}} for name in ("sm_86", "sm_86 within 48 KiB")
    }
    monkeypatch.setattr(tuned, "TABLE", found)
    case = CASES["causal prefill"]()
    assert difference(case.ours().float(), case.rivals["flash"]().float()) <= 4e-3
    assert json.loads(path.read_text())["sm_86"]["flash_attention"]["16 bits, heads of 16"]["keys"] == 32


def _said(fastest):
    known = [one for kernels in tuned.TABLE.values() for shapes in kernels.values() for one in shapes.values()]
    return 1.0 if known == [fastest] else 2.0
